use corten_api::value;

use super::super::port_record::{PortRange, Ports};
use super::*;

/// A service of a type with ports `port[/protocol][:nodePort]`, named after their index.
fn service(kind: &str, ports: &str) -> Value {
    let mut service = value!({"metadata": {"name": "s"}});
    service.set(&["spec", "type"], kind);
    let mut items = Vec::new();
    for (index, text) in ports.split(' ').filter(|text| !text.is_empty()).enumerate() {
        let (rest, node_port) = text.split_once(':').unwrap_or((text, "0"));
        let (number, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
        let mut port = Value::object();
        port.set(&["name"], format!("p{index}"));
        port.set(&["port"], number.parse::<i64>().unwrap());
        port.set(&["protocol"], protocol);
        match node_port.parse::<i64>().unwrap() {
            0 => {}
            number => port.set(&["nodePort"], number),
        }
        items.push(port);
    }
    service.set(&["spec", "ports"], items);
    service
}

fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).collect()
}

/// Draws that always start at the beginning of the upper part: 30086, 30087, …
fn operation(taken: &[i64], dry_run: bool) -> Operation<'static> {
    let mut ports = Ports::new(PortRange::default());
    taken.iter().for_each(|port| ports.take(*port).unwrap());
    Operation::new(ports, dry_run, &|_| 0)
}

fn taken_after(operation: Operation<'_>, watched: &[i64]) -> Option<Vec<i64>> {
    let after = operation.finish()?;
    Some(watched.iter().copied().filter(|port| after.has(*port)).collect())
}

#[test]
fn new_services() {
    for (kind, given, expected) in [
        ("ClusterIP", "80", &[0][..]),
        ("NodePort", "80 443", &[30086, 30087]),
        ("NodePort", "53 53/UDP", &[30086, 30086]),
        ("NodePort", "53 53/UDP:30100", &[30100, 30100]),
        ("NodePort", "53:30100 53/UDP:30101", &[30100, 30101]),
        ("NodePort", "53:30100 53/UDP:30100", &[30100, 30100]),
        ("LoadBalancer", "80", &[30086]),
    ] {
        let mut found = service(kind, given);
        let mut operation = operation(&[], false);
        take(&mut found, "s", &mut operation).unwrap();
        assert_eq!(node_ports(&found), expected, "{kind} {given}");
    }
}

#[test]
fn a_balancer_may_do_without_node_ports() {
    let mut found = service("LoadBalancer", "80 443:30100");
    found.set(&["spec", "allocateLoadBalancerNodePorts"], false);
    let mut operation = operation(&[], false);
    take(&mut found, "s", &mut operation).unwrap();
    assert_eq!(node_ports(&found), [0, 30100]);
}

#[test]
fn refusals() {
    let refused = |given: &str| {
        take(&mut service("NodePort", given), "s", &mut operation(&[30100], false)).unwrap_err().message
    };
    assert_eq!(
        refused("80:30100"),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30100: provided port is already allocated"
    );
    assert_eq!(
        refused("80:80"),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    );
    // The same node port for two service ports is a conflict.
    assert!(
        refused("80:30200 81/UDP:30200").contains("spec.ports[1].nodePort: Invalid value: 30200: provided")
    );
}

#[test]
fn health_check_ports() {
    let mut balancer = service("LoadBalancer", "80");
    balancer.set(&["spec", "externalTrafficPolicy"], "Local");
    let mut taking = operation(&[], false);
    let mut found = balancer.clone();
    take(&mut found, "s", &mut taking).unwrap();
    assert_eq!((node_ports(&found), health_check_port(&found)), (vec![30086], 30087));
    assert_eq!(held(&found), [30086, 30087]);

    balancer.set(&["spec", "healthCheckNodePort"], 30100);
    let error = take(&mut balancer, "s", &mut operation(&[30100], false)).unwrap_err();
    assert_eq!(
        error.message,
        "Internal error occurred: failed to allocate requested HealthCheck NodePort 30100: provided port is already allocated"
    );

    // Without the policy the port is released, and with it again a new one is allocated.
    let mut wider = found.clone();
    wider.set(&["spec", "externalTrafficPolicy"], "Cluster");
    let mut changing = operation(&[30086, 30087], false);
    change(&mut wider, &found, "s", &mut changing).unwrap();
    assert_eq!(taken_after(changing, &[30086, 30087]), Some(vec![30086]));
    let mut again = found.clone();
    again.remove(&["spec", "healthCheckNodePort"]);
    keep_omitted(&mut again, &found);
    assert_eq!(health_check_port(&again), 30087);
}

#[test]
fn updates() {
    let watched = [30100, 30101, 30102, 30086, 30087];
    for (old, new, expected, taken) in [
        (("NodePort", "80:30100"), ("NodePort", "80:30100"), &[30100][..], None),
        (("NodePort", "80:30100"), ("NodePort", "80:30101"), &[30101], Some(&[30101][..])),
        (("NodePort", "80:30100"), ("NodePort", "80:30100 81"), &[30100, 30086], Some(&[30100, 30086])),
        (("NodePort", "80:30100 81:30102"), ("NodePort", "80:30100"), &[30100], Some(&[30100])),
        (("NodePort", "80:30100"), ("ClusterIP", "80:30100"), &[30100], Some(&[])),
        (("NodePort", "80:30100"), ("ExternalName", ""), &[], Some(&[])),
        (("ClusterIP", "80"), ("NodePort", "80"), &[30086], Some(&[30086])),
        (("NodePort", "80:30100"), ("LoadBalancer", "80:30100"), &[30100], None),
        (("ClusterIP", "53 53/UDP"), ("NodePort", "53:30100 53/UDP:30100"), &[30100, 30100], Some(&[30100])),
    ] {
        let (before, mut found) = (service(old.0, old.1), service(new.0, new.1));
        let held: Vec<i64> = if has_node_ports(&before) { held(&before) } else { Vec::new() };
        let mut changing = operation(&held, false);
        change(&mut found, &before, "s", &mut changing).unwrap();
        assert_eq!(node_ports(&found), expected, "{old:?} → {new:?}");
        assert_eq!(taken_after(changing, &watched).as_deref(), taken, "{old:?} → {new:?}");
    }
    let before = service("NodePort", "80:30100");
    let mut twice = service("NodePort", "80:30100 81:30100");
    let refused = change(&mut twice, &before, "s", &mut operation(&[30100], false)).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (500, "duplicate nodePort: {TCP 30100}"));
}

#[test]
fn node_ports_that_an_update_leaves_out_are_kept() {
    for (old, new, expected) in [
        ("80:30100 81:30101", "80 81", &[30100, 30101][..]),
        ("80:30100 81:30101", "80:30101 81", &[30101, 0]),
        ("80:30100", "80 81", &[30100, 0]),
    ] {
        let mut found = service("NodePort", new);
        keep_omitted(&mut found, &service("NodePort", old));
        assert_eq!(node_ports(&found), expected, "{old} → {new}");
    }
    let mut internal = service("ClusterIP", "80");
    keep_omitted(&mut internal, &service("NodePort", "80:30100"));
    assert_eq!(node_ports(&internal), [0]);
}

#[test]
fn a_dry_run_allocates_nothing() {
    let mut found = service("NodePort", "80 81:30100");
    let mut dry = operation(&[], true);
    take(&mut found, "s", &mut dry).unwrap();
    assert_eq!(node_ports(&found), [32769, 30100]);
    assert!(dry.finish().is_none());
}
