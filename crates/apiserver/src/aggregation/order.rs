//! The order of groups and versions by the priorities of their APIServices.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use corten_api::Str;
use corten_api::resources::Resource;

use super::{KIND, Registered};
use crate::bootstrap::api_services;
use crate::crd::compare_versions;
use crate::{Server, resource_metrics};

/// A group with its versions, the preferred one first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: Str,
    pub(super) versions: Vec<Str>,
}

/// All registered APIServices, and what those of the built-in metrics would be: they have none. `served` are this server's
/// own resources that are not hidden.
pub(super) fn registered(server: &Server, served: &[&Resource]) -> Vec<Registered> {
    let cache = server.backend.catalog.cache(KIND.group, KIND.resource);
    let objects = cache.map(|cache| cache.snapshot("", None).objects).unwrap_or_default();
    let mut registered: Vec<Registered> =
        objects.iter().map(|object| Registered::of(object.parsed())).collect();
    for resource in served.iter().filter(|resource| resource.group == resource_metrics::GROUP) {
        let is_known = |r: &Registered| r.group == resource.group && r.version == resource.version;
        if !registered.iter().any(is_known) {
            registered.push(Registered::of(&api_services::object(&resource.group, &resource.version)));
        }
    }
    registered
}

/// Groups as `/apis` lists them: by the highest priority in the group, then by the name of the first APIService.
pub(super) fn groups(mut services: Vec<Registered>) -> Vec<Group> {
    services.sort_by(|a, b| {
        Reverse(a.group_priority).cmp(&Reverse(b.group_priority)).then_with(|| a.name.cmp(&b.name))
    });
    let mut order: Vec<Str> = Vec::new();
    let mut by_group: BTreeMap<Str, Vec<Registered>> = BTreeMap::new();
    for service in services {
        if !by_group.contains_key(&service.group) {
            order.push(service.group.clone());
        }
        by_group.entry(service.group.clone()).or_default().push(service);
    }
    let group = |name: Str| {
        let mut services = by_group.remove(&name).unwrap_or_default();
        services.sort_by(|a, b| {
            Reverse(a.version_priority)
                .cmp(&Reverse(b.version_priority))
                .then_with(|| compare_versions(&b.version, &a.version))
        });
        Group { name, versions: services.into_iter().map(|service| service.version).collect() }
    };
    order.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_versions_are_in_order_of_priority() {
        let service = |name: &str, group_priority, version_priority| {
            let (version, group) = name.split_once('.').unwrap();
            Registered {
                name: name.to_owned(),
                group: group.into(),
                version: version.into(),
                group_priority,
                version_priority,
            }
        };
        let found = groups(vec![
            service("v1.b", 1000, 10),
            service("v1beta1.b", 3000, 10),
            service("v2alpha1.b", 10, 20),
            service("v1.c", 2000, 1),
            service("v1.a", 1000, 1),
            service("v1.d", 1000, 1),
        ]);
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|g| (g.name.as_str(), g.versions.iter().map(|v| v.as_str()).collect()))
            .collect();
        assert_eq!(
            found,
            [
                ("b", vec!["v2alpha1", "v1", "v1beta1"]),
                ("c", vec!["v1"]),
                ("a", vec!["v1"]),
                ("d", vec!["v1"]),
            ]
        );
    }
}
