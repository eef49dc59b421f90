//! What a write uses, measured before any quota is looked at: pods by what they take, services by their
//! ports, claims by their size, everything else by number.

use corten_api::quantity::{Format, Quantity};
use corten_api::{Str, Value};

use super::super::resource_list::{Amount, ResourceList};
use super::super::{Attributes, Operation};
use super::claims::{self, DeviceClasses};
use super::scopes::Facts;
use super::{pods, scopes};

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
pub(super) enum Measure {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims(DeviceClasses),
    /// By number, under these names.
    Count(Vec<String>),
}

impl Measure {
    /// Whether a limit on something is about what is measured this way.
    pub(super) fn knows(&self, name: &str) -> bool {
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
pub(super) struct Item {
    pub usage: ResourceList,
    pub facts: Facts,
    /// The containers of a pod, with what of cpu and memory each of them states; none if the pod itself
    /// does.
    pub containers: Vec<(Str, Vec<&'static str>)>,
}

/// What a write asks of the quotas of its namespace.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    pub measure: Measure,
    pub new: Item,
    /// What is charged already, if this is an update.
    pub old: Option<Item>,
    /// What a status says is counted but never refused: it has happened.
    pub has_happened: bool,
    pub dry_run: bool,
}

/// Whether a write can change what is used.
pub(super) fn handles(attributes: &Attributes<'_>, object: &Value) -> bool {
    let (creates, updates) = (attributes.creates(), attributes.updates());
    match (attributes.resource(), attributes.subresource) {
        (("", "pods"), "") => {
            let changes_scope = |old| scopes::is_terminating(old) != scopes::is_terminating(object);
            creates || (updates && attributes.old.is_some_and(changes_scope))
        }
        (("", "pods"), "resize") => updates,
        (("", "persistentvolumeclaims"), "status") => updates,
        (("", "services" | "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims"), "") => {
            creates || updates
        }
        (resource, "") => creates && !IGNORED.contains(&resource),
        _ => false,
    }
}

impl Demand {
    pub(super) fn measure(attributes: &Attributes<'_>, object: &Value) -> Demand {
        let measure = match attributes.resource() {
            ("", "pods") => Measure::Pods,
            ("", "services") => Measure::Services,
            ("", "persistentvolumeclaims") => Measure::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => {
                Measure::ResourceClaims(DeviceClasses::read(attributes.backend()))
            }
            (group, resource) => Measure::Count(count_names(group, resource)),
        };
        let item = |object: &Value| match &measure {
            Measure::Pods => pods::item(object, attributes.call.now),
            Measure::Services => Item { usage: of_service(object), ..Item::default() },
            Measure::VolumeClaims => claims::volume_claim(object),
            Measure::ResourceClaims(classes) => claims::resource_claim(attributes, object, classes),
            Measure::Count(names) => {
                let one = |name: &String| (Str::new(name), number(1));
                Item { usage: names.iter().map(one).collect(), ..Item::default() }
            }
        };
        let old = attributes.old.filter(|_| attributes.operation == Operation::Update);
        Demand {
            new: item(object),
            old: old.map(item),
            has_happened: attributes.subresource == "status",
            dry_run: attributes.dry_run,
            measure,
        }
    }
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

    use super::super::super::resource_list;
    use super::*;

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
