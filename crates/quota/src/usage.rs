//! The measurement of each resource, and the names in quotas that apply to it.

use corten_api::quantity::{Format, Quantity};
use corten_api::{Str, Value};

use jiff::Timestamp;

use crate::claims::{self, DeviceClasses};
use crate::pods;
use crate::resource_list::{Amount, ResourceList};
use crate::scopes::Facts;

/// Resources that are never counted: they are not stored, or upstream does not count them.
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

/// Resources that are also counted under their plain name, as before generic counts existed.
const PLAIN_COUNTS: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const SERVICES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

/// The measurement of a resource.
#[derive(Debug, Clone)]
pub enum Measure {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims(DeviceClasses),
    /// By object count, under these names.
    Count(Vec<String>),
}

impl Measure {
    /// The measurement of a resource. Device classes are read only if they matter.
    pub fn of(group: &str, resource: &str, classes: impl FnOnce() -> DeviceClasses) -> Measure {
        match (group, resource) {
            ("", "pods") => Measure::Pods,
            ("", "services") => Measure::Services,
            ("", "persistentvolumeclaims") => Measure::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Measure::ResourceClaims(classes()),
            (group, resource) => Measure::Count(count_names(group, resource)),
        }
    }

    /// The usage of one object.
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

    /// True if a quota's resource name applies to this measurement.
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

/// The usage of one state of an object.
#[derive(Debug, Clone, Default)]
pub struct Item {
    pub usage: ResourceList,
    pub facts: Facts,
    /// The containers of a pod, with the cpu and memory that each specifies; none if the pod has pod-level resources.
    pub containers: Vec<(Str, Vec<&'static str>)>,
}

/// The other objects in the namespace of a measured object.
pub trait Neighbours {
    fn pod(&self, name: &str) -> Option<Value>;
    fn resource_claims(&self) -> Vec<Value>;
}

/// True if a resource is counted.
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

/// The usage of a service: one, and its node ports.
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
    fn services_use_node_ports() {
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
    fn all_resources_can_be_counted() {
        assert_eq!(count_names("", "secrets"), ["count/secrets", "secrets"]);
        assert_eq!(count_names("", "endpoints"), ["count/endpoints"]);
        assert_eq!(count_names("apps", "deployments"), ["count/deployments.apps"]);
    }
}
