use std::sync::Arc;

use corten_api::value;
use corten_client::Object;

use super::*;

fn change(old: Option<Value>, new: Option<Value>) -> Change {
    let object = |tree: Value| Arc::new(Object::of(&tree));
    Change { old: old.map(object), new: new.map(object) }
}

fn service(ip: &str, note: &str) -> Value {
    value!({
        "metadata": {"namespace": "n", "name": "s", "annotations": {"note": (note)}},
        "spec": {"clusterIP": (ip), "ports": [{"name": "http", "port": 80}]},
    })
}

fn slice(service: &str, address: &str) -> Value {
    value!({
        "metadata": {
            "namespace": "n", "name": "s-1", "labels": {"kubernetes.io/service-name": (service)},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z"},
        },
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": [(address)]}],
    })
}

fn names(changed: &Changed) -> Vec<String> {
    changed.services.iter().map(Key::to_string).collect()
}

#[test]
fn only_changes_that_affect_rules_count() {
    let mut inputs = Inputs::default();
    assert!(inputs.service(&change(None, Some(service("10.96.0.1", "a")))));
    assert_eq!(names(&inputs.take_changed()), ["n/s"]);
    assert!(!inputs.service(&change(None, Some(service("10.96.0.1", "b")))));
    assert!(inputs.take_changed().services.is_empty());
    assert!(inputs.service(&change(None, Some(service("10.96.0.2", "b")))));
    assert!(inputs.service(&change(Some(service("10.96.0.2", "b")), None)));
    assert_eq!(names(&inputs.take_changed()), ["n/s"]);
    assert!(inputs.routed(&Key::new("n", "s"), true, &Node::default()).is_empty());
}

#[test]
fn endpoints_are_matched_by_port_name() {
    let mut inputs = Inputs::default();
    inputs.service(&change(None, Some(service("10.96.0.1", ""))));
    inputs.slice(&change(None, Some(slice("s", "10.244.0.2"))));
    let changed = inputs.take_changed();
    assert_eq!((names(&changed), changed.triggers.len()), (vec!["n/s".to_owned()], 1));
    let routed = inputs.routed(&Key::new("n", "s"), true, &Node::default());
    assert_eq!(routed[0].cluster[0].address.to_string(), "10.244.0.2:8080");
}

#[test]
fn a_slice_may_move_to_another_service() {
    let mut inputs = Inputs::default();
    inputs.slice(&change(None, Some(slice("s", "10.244.0.2"))));
    inputs.take_changed();
    assert!(inputs.slice(&change(Some(slice("s", "10.244.0.2")), Some(slice("t", "10.244.0.2")))));
    assert_eq!(names(&inputs.take_changed()), ["n/s", "n/t"]);
    assert!(inputs.slice(&change(Some(slice("t", "10.244.0.2")), None)));
    assert_eq!(names(&inputs.take_changed()), ["n/t"]);
    assert!(inputs.slices.is_empty());
}

#[test]
fn a_change_of_this_node_affects_every_service() {
    let node = |zone: &str, ready: &str| {
        value!({
            "metadata": {"name": "here", "labels": {"topology.kubernetes.io/zone": (zone)}},
            "status": {"conditions": [{"type": "Ready", "status": (ready)}]},
        })
    };
    let mut inputs = Inputs::default();
    inputs.service(&change(None, Some(service("10.96.0.1", ""))));
    inputs.take_changed();
    assert!(inputs.node(&change(None, Some(node("a", "True")))));
    assert_eq!(names(&inputs.take_changed()), ["n/s"]);
    assert!(!inputs.node(&change(None, Some(node("a", "False")))));
    assert!(inputs.node(&change(None, Some(node("b", "True")))));
    assert_eq!(names(&inputs.take_changed()), ["n/s"]);
}

#[test]
fn ready_pods_on_this_node_are_counted_once_for_load_balancers() {
    let mut inputs = Inputs::default();
    let balanced = value!({
        "metadata": {"namespace": "n", "name": "s"},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.1", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 31000, "ports": [{"name": "http", "port": 80}],
        },
    });
    let two_ports = value!({
        "metadata": {"namespace": "n", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}, {"name": "https", "port": 8443}],
        "endpoints": [
            {"addresses": ["10.244.0.2"], "nodeName": "here"}, {"addresses": ["10.244.1.2"], "nodeName": "there"},
            {"addresses": ["10.244.0.3"], "nodeName": "here", "conditions": {"ready": false}},
        ],
    });
    inputs.service(&change(None, Some(balanced)));
    inputs.slice(&change(None, Some(two_ports)));
    let node = Node { name: "here".into(), ..Node::default() };
    assert_eq!(inputs.health(&Key::new("n", "s"), true, &node), Some((31000, 1)));
    assert_eq!(inputs.health(&Key::new("n", "t"), true, &node), None);
}

/// An attack: a Service of 100 ports with so many slices of 1,000 endpoints that written out its rules would take all of
/// the node's memory. It is cut, evenly and with what is on this node first, and others are proxied whole.
#[test]
fn a_service_with_very_many_endpoints_is_cut_and_others_are_not() {
    let mut inputs = Inputs::default();
    let ports = (0..100).map(|i| value!({"name": (format!("p{i}")), "port": (i + 1)})).collect::<Vec<_>>();
    let large = value!({
        "metadata": {"namespace": "n", "name": "large"}, "spec": {"clusterIP": "10.96.0.9", "ports": (ports.clone())},
    });
    inputs.service(&change(None, Some(large)));
    for i in 0..50 {
        let endpoint = |j| {
            let node = if i == 49 && j == 0 { "here" } else { "there" };
            value!({"addresses": [(format!("10.{i}.{}.{}", j / 250, j % 250))], "nodeName": node})
        };
        let endpoints = (0..1_000).map(endpoint).collect::<Vec<_>>();
        inputs.slice(&change(
            None,
            Some(value!({
                "metadata": {
                    "namespace": "n", "name": (format!("large-{i}")),
                    "labels": {"kubernetes.io/service-name": "large"},
                },
                "addressType": "IPv4", "ports": (ports.clone()), "endpoints": (endpoints),
            })),
        ));
    }
    inputs.service(&change(None, Some(service("10.96.0.1", "a"))));
    inputs.slice(&change(None, Some(slice("s", "10.200.0.1"))));
    let node = Node { name: "here".into(), ..Node::default() };
    let routed = inputs.routed(&Key::new("n", "large"), true, &node);
    let written: usize = routed.iter().map(|routed| routed.cluster.len()).sum();
    assert_eq!((routed.len(), written), (100, 50_000), "of five million");
    for port in &routed {
        assert_eq!(port.cluster.len(), 500, "no port is without endpoints");
        assert!(port.cluster.iter().any(|target| target.local), "those of this node come first");
    }
    assert_eq!(inputs.routed(&Key::new("n", "s"), true, &node)[0].cluster.len(), 1);
}
