//! PodResizeValidator: a resized pod fits into the allocatable resources of its node.

use corten_api::quantity::Quantity;
use corten_api::status::Cause;
use corten_api::{Status, Value, meta};
use corten_quota::resource_list;

use super::{Admit, Plugin, UPDATE, Validate};

use crate::admission::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "PodResizeValidator",
    operations: UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let (Some(pod), Some(old)) = (object, attributes.old) else { return Ok(()) };
    let resizes = attributes.resource() == ("", "pods") && attributes.subresource == "resize";
    let name = pod::node_name(pod);
    if !resizes || name.is_empty() || meta::generation(pod) == meta::generation(old) {
        return Ok(());
    }
    let Some(node) = lookup::node(attributes.backend(), name) else {
        return Err(attributes.forbidden(Some(pod), format!("node {name:?} not found")));
    };
    check(pod, node.parsed()).map_err(|(reason, why)| {
        let mut status = attributes.forbidden(Some(pod), why);
        status.details.causes =
            vec![Cause { reason: reason.into(), message: String::new(), field: String::new() }];
        status
    })
}

pub(super) fn check(pod: &Value, node: &Value) -> Result<(), (&'static str, String)> {
    match node.str_at(&["metadata", "labels", "kubernetes.io/os"]) {
        None | Some("linux") => {}
        Some(other) => {
            let why = format!(
                "pod resize is only supported on linux nodes, node {:?} is {other:?}",
                meta::name(node)
            );
            return Err(("UnsupportedPlatform", why));
        }
    }
    let requests = resource_list::finish_pod(pod, "requests", resource_list::of_containers(pod, "requests"));
    let allocatable = resource_list::read(node.at(&["status", "allocatable"]));
    let of = |list: &resource_list::ResourceList, name: &str| {
        list.get(name).map_or(Quantity::ZERO, |amount| amount.quantity)
    };
    let short = |name: &str, unit: fn(&Quantity) -> i64| {
        let (asked, there) = (of(&requests, name), of(&allocatable, name));
        (asked > there).then(|| format!("{name}, requested: {}, allocatable: {}", unit(&asked), unit(&there)))
    };
    let missing: Vec<String> = [short("cpu", Quantity::milli_value), short("memory", Quantity::value)]
        .into_iter()
        .flatten()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", missing.join("; "));
    Err(("NodeCapacity", why))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_resized_pod_fits_on_its_node() {
        let node =
            value!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        let pod = |cpu: &str, memory: &str| value!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]}});
        assert_eq!(check(&pod("2", "1Gi"), &node), Ok(()));
        let why = "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824";
        assert_eq!(check(&pod("2500m", "2Gi"), &node), Err(("NodeCapacity", why.to_owned())));
        let windows = value!({"metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}});
        let why = r#"pod resize is only supported on linux nodes, node "w" is "windows""#;
        assert_eq!(check(&pod("1", "1"), &windows), Err(("UnsupportedPlatform", why.to_owned())));
    }
}
