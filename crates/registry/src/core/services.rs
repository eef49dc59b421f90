//! Services: a stable address in front of pods. Addresses and ports are allocated elsewhere; here, a change
//! of type removes fields that no longer apply.

mod cluster_ips;
mod defaults;
mod ports;
mod validate;
mod warnings;

pub use cluster_ips::fit as service_addresses_fit;

use std::collections::BTreeSet;

use corten_api::Value;

use crate::prepare::{copy, drop_status, resets_spec_or_status, same, status_keeps_spec};
use crate::rules::{NameRule, Request, RowContext, Rules, Selectable};
use crate::selector::labels;
use crate::table::{
    AGE, NAME, NONE, UNKNOWN, age, cells, count, field, int_at, joined, name, present, str_at, str_or, text,
};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "services",
    storage_prefix: "services/specs",
    name: NameRule::DnsLabel,
    default: defaults::service,
    prepare_create: drop_status,
    prepare_update,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: |_, service, old, errors| validate::status(service, old, errors),
    warnings: |service, _| warnings::warnings(service),
    create_on_update: true,
    delete_returns_object: true,
    selectable: &[
        Selectable { label: "spec.clusterIP", value: |o| field(o, &["spec", "clusterIP"]) },
        Selectable { label: "spec.type", value: |o| field(o, &["spec", "type"]) },
    ],
    columns: &[
        NAME,
        text("Type", "How it is exposed.").of("core/v1.ServiceSpec", "type"),
        text("Cluster-IP", "Its address inside the cluster.").of("core/v1.ServiceSpec", "clusterIP"),
        text("External-IP", "Its addresses outside of the cluster.").of("core/v1.ServiceSpec", "externalIPs"),
        text("Port(s)", "The ports it offers, and where nodes offer them.")
            .of("core/v1.ServiceSpec", "ports"),
        AGE,
        text("Selector", "Labels of the pods behind it.").of("core/v1.ServiceSpec", "selector").wide(),
    ],
    row,
    ..Rules::DEFAULT
};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        service_type(object),
        object.items_at(&["spec", "clusterIPs"]).first().and_then(Value::as_str).unwrap_or(NONE),
        external_ips(object),
        ports_cell(object),
        age(object, context),
        labels(object.at(&["spec", "selector"])),
    ]
}

fn external_ips(object: &Value) -> String {
    let named = joined(object, &["spec", "externalIPs"], ",");
    match service_type(object) {
        "ClusterIP" | "NodePort" if named.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => named,
        "LoadBalancer" => {
            let balancers = load_balancer(object);
            match (balancers.is_empty(), named.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, false) => format!("{balancers},{named}"),
                _ => balancers + &named,
            }
        }
        "ExternalName" => str_at(object, &["spec", "externalName"]).to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// Addresses of a load balancer: IPs, or else host names, each once.
pub(crate) fn load_balancer(object: &Value) -> String {
    let ingress = object.items_at(&["status", "loadBalancer", "ingress"]);
    let addresses: BTreeSet<&str> = ingress
        .iter()
        .map(|i| str_or(i, &["ip"], str_at(i, &["hostname"])))
        .filter(|a| !a.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports_cell(object: &Value) -> String {
    let shown = |port: &Value| {
        let (number, protocol) = (int_at(port, &["port"]), str_at(port, &["protocol"]));
        match int_at(port, &["nodePort"]) {
            node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = object.items_at(&["spec", "ports"]).iter().map(shown).collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

fn service_type(object: &Value) -> &str {
    str_at(object, &["spec", "type"])
}

/// Changing a service's type removes fields that the new type does not use: only those that the server may have set,
/// and only if the client left them unchanged. Other fields are left to validation.
fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    copy(object, old, &["status"]);
    let lost = |uses: fn(&Value) -> bool, object: &Value| uses(old) && !uses(object);
    let drop_unchanged = |object: &mut Value, paths: &[&[&str]]| {
        if paths.iter().all(|path| same(object, old, path)) {
            for path in paths {
                object.remove(path);
            }
        }
    };
    if lost(|s| service_type(s) != "ExternalName", object) {
        drop_unchanged(object, &[&["spec", "clusterIP"], &["spec", "clusterIPs"]]);
        drop_unchanged(object, &[&["spec", "ipFamilies"]]);
        drop_unchanged(object, &[&["spec", "ipFamilyPolicy"]]);
    }
    if lost(uses_node_ports, object) && node_ports(object).is_subset(&node_ports(old)) {
        let ports = object.get_mut("spec").and_then(|s| s.get_mut("ports")).and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            port.remove(&["nodePort"]);
        }
    }
    if lost(uses_health_check_port, object) {
        drop_unchanged(object, &[&["spec", "healthCheckNodePort"]]);
    }
    if lost(is_balanced, object) {
        drop_unchanged(object, &[&["spec", "allocateLoadBalancerNodePorts"]]);
        drop_unchanged(object, &[&["spec", "loadBalancerClass"]]);
    }
    if lost(reached_from_outside, object) {
        drop_unchanged(object, &[&["spec", "externalTrafficPolicy"]]);
    }
    if !is_balanced(object) && present(object, &["status", "loadBalancer"]) {
        object.set(&["status", "loadBalancer"], Value::object());
    }
}

fn is_balanced(service: &Value) -> bool {
    service_type(service) == "LoadBalancer"
}

fn uses_node_ports(service: &Value) -> bool {
    matches!(service_type(service), "NodePort" | "LoadBalancer")
}

fn uses_health_check_port(service: &Value) -> bool {
    is_balanced(service) && str_at(service, &["spec", "externalTrafficPolicy"]) == "Local"
}

fn reached_from_outside(service: &Value) -> bool {
    uses_node_ports(service)
        || service_type(service) == "ClusterIP" && count(service, &["spec", "externalIPs"]) > 0
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    service
        .items_at(&["spec", "ports"])
        .iter()
        .map(|p| int_at(p, &["nodePort"]))
        .filter(|p| *p != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_new_type_drops_what_it_cannot_use() {
        let old = value!({
            "spec": {
                "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 30001, "allocateLoadBalancerNodePorts": true,
                "ports": [{"port": 80, "nodePort": 30000}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
        });
        let after = |change: fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            RULES.prepare_for_update(
                "",
                &mut new,
                &old,
                &Request { now: jiff::Timestamp::UNIX_EPOCH, user: None },
            );
            new
        };
        let internal = after(|s| s.set(&["spec", "type"], "ClusterIP"));
        let expected = value!({
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}],
            },
            "status": {"loadBalancer": {}},
        });
        assert_eq!(internal, expected);

        let external = after(|s| s.set(&["spec", "type"], "ExternalName"));
        assert_eq!(external.get("spec"), Some(&value!({"type": "ExternalName", "ports": [{"port": 80}]})));

        // A field that the client changed stays, and is refused by validation.
        let changed = after(|s| {
            s.set(&["spec", "type"], "ExternalName");
            s.set(&["spec", "clusterIP"], "10.0.0.9");
            s.set(&["spec", "ports"], value!([{"port": 80, "nodePort": 31000}]));
        });
        assert_eq!(changed.str_at(&["spec", "clusterIP"]), Some("10.0.0.9"));
        assert_eq!(changed.items_at(&["spec", "ports"])[0].int_at(&["nodePort"]), Some(31000));

        assert_eq!(after(|_| {}), old);
    }

    #[test]
    fn stored_values_are_accepted_again() {
        let complaints = |old: &Value, change: fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            let mut errors = corten_api::status::ErrorList::new();
            (RULES.validate_update)(&new, old, &mut errors);
            errors.0.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        let mut old = value!({"spec": {
            "type": "LoadBalancer", "clusterIP": "010.0.0.1", "clusterIPs": ["010.0.0.1"], "ipFamilies": ["IPv4"],
            "externalIPs": ["01.2.3.4"], "loadBalancerSourceRanges": ["10.0.0.1/8"], "ports": [{"port": 80}],
        }});
        (RULES.default)(&mut old);
        assert!(complaints(&old, |_| {}).is_empty());
        let added = complaints(&old, |service| {
            service.set(&["spec", "externalIPs"], value!(["01.2.3.4", "01.2.3.5"]));
            service.set(&["spec", "loadBalancerSourceRanges"], value!([" 10.0.0.1/8 ", "10.0.0.2/8"]));
        });
        assert_eq!(added, ["spec.externalIPs[1]", "spec.LoadBalancerSourceRanges[1]"]);
    }

    #[test]
    fn a_second_address_is_added_and_removed() {
        let complaints = |new: &Value, old: &Value| {
            let whole = |spec: &Value| {
                let mut service = value!({"spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.1"}});
                for (key, part) in spec.as_object().expect("is an object").iter() {
                    service.set(&["spec", key], part.clone());
                }
                (RULES.default)(&mut service);
                service
            };
            let mut errors = corten_api::status::ErrorList::new();
            (RULES.validate_update)(&whole(new), &whole(old), &mut errors);
            errors.0.into_iter().map(|error| (error.field, error.detail)).collect::<Vec<_>>()
        };
        let one = value!({
            "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        });
        let two = value!({
            "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "RequireDualStack",
        });
        assert!(complaints(&two, &one).is_empty());
        assert!(complaints(&one, &two).is_empty());
        let mut released = one.clone();
        released.set(&["ipFamilyPolicy"], "PreferDualStack");
        let unsaid = complaints(&released, &two);
        let why = "must be set to 'SingleStack' when releasing the secondary";
        assert!(
            unsaid.iter().all(|(field, detail)| field == "spec.ipFamilyPolicy" && detail.starts_with(why))
        );
        assert_eq!(unsaid.len(), 2);
        let mut twice = two.clone();
        twice.set(&["clusterIPs"], value!(["10.0.0.1", "10.0.0.2"]));
        assert_eq!(
            complaints(&twice, &two),
            [
                (
                    "spec.clusterIPs".to_owned(),
                    "may specify no more than one IP for each IP family".to_owned()
                ),
                (
                    "spec.clusterIPs[1]".to_owned(),
                    "expected an IPv6 value as indicated by `ipFamilies[1]`".to_owned()
                ),
            ]
        );
    }
}
