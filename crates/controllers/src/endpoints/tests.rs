//! Tests of the Endpoints of services and their pods.

use corten_api::Status;

use super::*;
use crate::testing::{at, at_text, cached, failed};

fn service() -> Value {
    value!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"team": "shop"}},
        "spec": {
            "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

/// The n-th pod, running and ready.
fn pod(n: usize) -> Value {
    value!({
        "metadata": {"name": (format!("p{n:04}")), "namespace": "default", "uid": (format!("uid{n}"))},
        "spec": {"nodeName": "one"},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": (format!("10.1.{}.{}", n / 250, n % 250))}, {"ip": (format!("fd00::{n:x}"))}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": (at_text(-10))}],
        },
    })
}

fn not_ready(mut pod: Value) -> Value {
    pod.remove(&["status", "conditions"]);
    pod
}

fn going(pod: Value) -> Value {
    with(pod, &["metadata", "deletionTimestamp"], at_text(0))
}

fn key() -> Key {
    Key::new("default", "web")
}

fn plan(world: &World) -> Plan {
    Endpoints::new(EndpointsOptions::default()).plan(&key(), world, at(0))
}

fn selecting(service: &Value, pods: &[Value], endpoints: Option<Value>) -> World {
    let pods = pods.iter().map(cached).map(Pod::from).collect();
    let service = service.clone();
    World::Selecting(Box::new(Selecting { service, pods, endpoints, trigger: Some(at(-10)) }))
}

/// The Endpoints that are written; `None` if none are.
fn written(service: &Value, pods: &[Value], endpoints: Option<Value>) -> Option<Value> {
    let plan = plan(&selecting(service, pods, endpoints));
    let mut actions = plan.actions();
    let action = actions.next()?;
    assert!(actions.next().is_none());
    match action {
        Action::Create { object, .. } | Action::Update { object, .. } => Some(object.clone()),
        other => panic!("{other:?}"),
    }
}

fn made(service: &Value, pods: &[Value]) -> Value {
    let endpoints = written(service, pods, None).unwrap();
    assert_eq!(written(service, pods, Some(endpoints.clone())), None, "nothing is done twice");
    endpoints
}

/// The addresses of all subsets with their ports: the ready ones, then the others in brackets.
fn describe(endpoints: &Value) -> Vec<String> {
    let subset = |subset: &Value| {
        let list = |key: &str| {
            let ips = subset.items_at(&[key]).iter().map(|address| address.str_at(&["ip"]).unwrap());
            ips.collect::<Vec<_>>().join(" ")
        };
        let ports =
            subset.items_at(&["ports"]).iter().map(|port| port.int_at(&["port"]).unwrap().to_string());
        let ports = ports.collect::<Vec<_>>().join(" ");
        format!("{} ({}) : {ports}", list("addresses"), list("notReadyAddresses"))
    };
    endpoints.items_at(&["subsets"]).iter().map(subset).collect()
}

#[test]
fn endpoints_say_all_about_their_pods() {
    let named = with(with(pod(1), &["spec", "hostname"], "one"), &["spec", "subdomain"], "web");
    let expected = value!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "web", "namespace": "default",
            "labels": {"team": "shop", "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": (at_text(-10))},
        },
        "subsets": [{
            "addresses": [{
                "ip": "10.1.0.1", "hostname": "one", "nodeName": "one",
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "p0001", "uid": "uid1"},
            }],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }],
    });
    assert_eq!(made(&service(), &[named]), expected);
    let headless = with(service(), &["spec", "clusterIP"], "None");
    assert_eq!(made(&headless, &[]).str_at(&["metadata", "labels", services::HEADLESS]), Some(""));
    assert_eq!(made(&service(), &[]).get("subsets"), None);
}

#[test]
fn addresses_of_pods_are_ready_or_not_ready() {
    let publishing = with(service(), &["spec", "publishNotReadyAddresses"], true);
    let ipv6 = with(service(), &["spec", "ipFamilies"], vec![Value::from("IPv6")]);
    let unsaid =
        with(with(service(), &["spec", "ipFamilies"], Value::Null), &["spec", "clusterIP"], "fd00::9");
    let finished = with(pod(1), &["status", "phase"], "Failed");
    let mut portless = with(service(), &["spec", "clusterIP"], "None");
    portless.remove(&["spec", "ports"]);
    let two = vec![
        value!({"name": "a", "port": 80, "targetPort": 8080}),
        value!({"name": "b", "port": 81, "targetPort": "metrics"}),
    ];
    let two = with(service(), &["spec", "ports"], two);
    let ports = vec![value!({"ports": [{"name": "metrics", "containerPort": 9090}]})];
    let metered = with(pod(2), &["spec", "containers"], ports);
    for (case, service, pods, expected) in [
        ("both", service(), vec![pod(1), not_ready(pod(2))], &["10.1.0.1 (10.1.0.2) : 8080"][..]),
        ("going", service(), vec![going(pod(1)), pod(2)], &["10.1.0.2 () : 8080"]),
        ("finished", service(), vec![finished], &[]),
        ("published", publishing, vec![going(not_ready(pod(1)))], &["10.1.0.1 () : 8080"]),
        ("other family", ipv6, vec![pod(1)], &["fd00::1 () : 8080"]),
        ("family of its own address", unsaid, vec![pod(1)], &["fd00::1 () : 8080"]),
        ("no ports", portless, vec![pod(1), not_ready(pod(2))], &["10.1.0.1 (10.1.0.2) : "]),
        ("same ports", two.clone(), vec![metered.clone()], &["10.1.0.2 () : 8080 9090"]),
        ("other ports", two, vec![pod(1), metered], &["10.1.0.1 10.1.0.2 () : 8080", "10.1.0.2 () : 9090"]),
    ] {
        assert_eq!(describe(&made(&service, &pods)), expected, "{case}");
    }
}

#[test]
fn equal_endpoints_are_not_written() {
    let mut same = made(&service(), &[pod(1), pod(2)]);
    let subsets = same.get_mut("subsets").and_then(Value::as_array_mut).unwrap();
    let addresses = subsets[0].get_mut("addresses").and_then(Value::as_array_mut).unwrap();
    addresses.reverse();
    addresses[0].set(&["targetRef", "resourceVersion"], "7");
    assert_eq!(written(&service(), &[pod(1), pod(2)], Some(same.clone())), None);
    same.set(&["metadata", "labels", "team"], "other");
    let corrected = written(&service(), &[pod(1), pod(2)], Some(same)).unwrap();
    assert_eq!(corrected.str_at(&["metadata", "labels", "team"]), Some("shop"));
}

#[test]
fn more_than_a_thousand_addresses_are_too_many() {
    let over = |endpoints: &Value| {
        endpoints.str_at(&["metadata", "annotations", OVER_CAPACITY]) == Some("truncated")
    };
    let counted = |endpoints: &Value| {
        let count = |list: &str| -> usize {
            endpoints.items_at(&["subsets"]).iter().map(|subset| subset.items_at(&[list]).len()).sum()
        };
        (count("addresses"), count("notReadyAddresses"), over(endpoints))
    };
    let pods = |ready: usize, not_ready_count: usize| -> Vec<Value> {
        (0..ready).map(pod).chain((ready..ready + not_ready_count).map(|n| not_ready(pod(n)))).collect()
    };
    for (ready, not_ready, expected) in [
        (1000, 0, (1000, 0, false)),
        (1001, 0, (1000, 0, true)),
        (900, 300, (900, 100, true)),
        (1000, 100, (1000, 0, true)),
        (1200, 100, (1000, 0, true)),
    ] {
        assert_eq!(counted(&made(&service(), &pods(ready, not_ready))), expected);
    }
    let fewer = written(&service(), &pods(1, 0), Some(made(&service(), &pods(1001, 0)))).unwrap();
    assert!(!over(&fewer));
}

#[test]
fn endpoints_go_with_their_service() {
    let left = value!({"metadata": {"name": "web", "namespace": "default", "uid": "e"}});
    let plan_of = |world| plan(&world).actions().count();
    assert_eq!(plan_of(World::Gone(Some(left.clone()))), 1);
    assert_eq!(plan_of(World::Gone(Some(with(left, &["metadata", "annotations", LEADER], "{}")))), 0);
    assert_eq!(plan_of(World::Gone(None)), 0);
    assert_eq!(plan_of(World::Foreign), 0);
}

#[test]
fn failures_are_reported() {
    let controller = Endpoints::new(EndpointsOptions::default());
    let world = selecting(&service(), &[pod(1)], None);
    let refused = failed(&plan(&world), Status::bad_request("no"));
    let reported = controller.conclude(&key(), &world, &refused, at(0));
    assert_eq!(reported.events[0].reason, "FailedToCreateEndpoint");
    assert_eq!(reported.events[0].message, "Failed to create endpoint for service default/web: no");
}
