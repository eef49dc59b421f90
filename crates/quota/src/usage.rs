//! How each resource is measured, and what of it quotas know.

use corten_api::quantity::{Format, Quantity};
use corten_api::{Str, Value};

use jiff::Timestamp;

use crate::claims::{self, DeviceClasses};
use crate::pods;
use crate::resource_list::{Amount, ResourceList};
use crate::scopes::Facts;

/// Never counted: they are not stored, or never were counted.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Counted under their plain name too, as they were before everything could be counted.
const PLAIN_COUNTS: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const SERVICES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

/// How a resource is measured.
#[derive(Debug, Clone)]
pub enum Measure {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims(DeviceClasses),
    /// By number, under these names.
    Count(Vec<String>),
}

impl Measure {
    /// How a resource is measured. Device classes are asked for only if they matter.
    pub fn of(group: &str, resource: &str, classes: impl FnOnce() -> DeviceClasses) -> Measure {
        match (group, resource) {
            ("", "pods") => Measure::Pods,
            ("", "services") => Measure::Services,
            ("", "persistentvolumeclaims") => Measure::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Measure::ResourceClaims(classes()),
            (group, resource) => Measure::Count(count_names(group, resource)),
        }
    }

    /// What one object uses.
    pub fn item(&self, object: &Value, neighbours: &dyn Neighbours, now: Timestamp) -> Item {
        match self {
            Measure::Pods => pods::item(object, now),
            Measure::Services => Item { usage: of_service(object), ..Item::default() },
            Measure::VolumeClaims => claims::volume_claim(object),
            Measure::ResourceClaims(classes) => claims::resource_claim(object, classes, neighbours, now),
            Measure::Count(names) => {
                let one = |name: &String| (Str::new(name), number(1));
                Item { usage: names.iter().map(one).collect(), ..Item::default() }
            }
        }
    }

    /// Whether a limit on something is about what is measured this way.
    pub fn knows(&self, name: &str) -> bool {
        match self {
            Measure::Pods => pods::knows(name),
            Measure::Services => SERVICES.contains(&name),
            Measure::VolumeClaims => claims::knows_volume_claims(name),
            Measure::ResourceClaims(classes) => claims::knows_resource_claims(name, classes),
            Measure::Count(names) => names.iter().any(|n| n == name),
        }
    }
}

/// One state of an object, as quotas see it.
#[derive(Debug, Clone, Default)]
pub struct Item {
    pub usage: ResourceList,
    pub facts: Facts,
    /// The containers of a pod, with what of cpu and memory each of them states; none if the pod itself
    /// does.
    pub containers: Vec<(Str, Vec<&'static str>)>,
}

/// What is in the same namespace as an object that is measured.
pub trait Neighbours {
    fn pod(&self, name: &str) -> Option<Value>;
    fn resource_claims(&self) -> Vec<Value>;
}

/// Whether a resource is counted at all.
pub fn is_counted(group: &str, resource: &str) -> bool {
    !IGNORED.contains(&(group, resource))
}

fn count_names(group: &str, resource: &str) -> Vec<String> {
    match group {
        "" if PLAIN_COUNTS.contains(&resource) => vec![format!("count/{resource}"), resource.to_owned()],
        "" => vec![format!("count/{resource}")],
        _ => vec![format!("count/{resource}.{group}")],
    }
}

pub(super) fn number(count: usize) -> Amount {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi).into()
}

/// A service counts as one, and its ports as those it takes on every node.
fn of_service(service: &Value) -> ResourceList {
    let ports = service.items_at(&["spec", "ports"]);
    let stated = || ports.iter().filter(|p| p.int_at(&["nodePort"]).unwrap_or(0) != 0).count();
    let (node_ports, balancers) = match service.str_at(&["spec", "type"]) {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer")
            if service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) == Some(false) =>
        {
            (stated(), 1)
        }
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    let counts = [1, 1, node_ports, balancers].map(number);
    SERVICES.into_iter().map(Str::new_static).zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;
    use crate::resource_list;

    #[test]
    fn services_count_by_their_ports() {
        let service = |kind: &str, allocate: Option<bool>| {
            let mut service = value!({"spec": {"type": kind, "ports": [{"nodePort": 30001}, {}, {}]}});
            if let Some(allocate) = allocate {
                service.set(&["spec", "allocateLoadBalancerNodePorts"], allocate);
            }
            json::write_to_string(&resource_list::write(&of_service(&service)))
        };
        let expected = |balancers: u8, ports: u8| {
            format!(
                r#"{{"count/services":"1","services":"1","services.loadbalancers":"{balancers}","services.nodeports":"{ports}"}}"#
            )
        };
        assert_eq!(service("ClusterIP", None), expected(0, 0));
        assert_eq!(service("NodePort", None), expected(0, 3));
        assert_eq!(service("LoadBalancer", None), expected(1, 3));
        assert_eq!(service("LoadBalancer", Some(false)), expected(1, 1));
    }

    #[test]
    fn everything_can_be_counted() {
        assert_eq!(count_names("", "secrets"), ["count/secrets", "secrets"]);
        assert_eq!(count_names("", "endpoints"), ["count/endpoints"]);
        assert_eq!(count_names("apps", "deployments"), ["count/deployments.apps"]);
    }
}
