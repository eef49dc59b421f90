//! Single features of policies.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use corten_api::{Value, value};

use crate::world::{OUTSIDE, World, gone};

fn two() -> World {
    let mut world = World::new();
    world.namespace("n", value!({}));
    world.pod("n", "a", value!({"app": "a"}));
    world.pod("n", "b", value!({"app": "b"}));
    world.enforce();
    world
}

#[test]
fn a_selected_pod_is_isolated_and_others_are_not() {
    let mut world = two();
    let b = world.pods["b"].address;
    assert!(world.pods["a"].reaches(b, 80));
    assert!(world.is_reached_from_outside("b", 80));
    world.policy("n", "deny", value!({"podSelector": {"matchLabels": {"app": "b"}}}));
    world.enforce();
    assert!(!world.pods["a"].reaches(b, 80));
    assert!(!world.is_reached_from_outside("b", 80));
    assert!(world.pods["b"].reaches(world.pods["a"].address, 80), "it may still connect, and gets responses");
    assert!(world.pods["b"].reaches(b, 80), "a pod always reaches itself");
}

#[test]
fn blocks_have_exceptions() {
    let mut world = two();
    let block = |except: Value| {
        value!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": [
            {"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": (except)}}], "ports": [{"port": 80}]},
        ]})
    };
    world.policy("n", "p", block(value!([])));
    world.enforce();
    assert!(world.is_reached_from_outside("b", 80));
    assert!(!world.is_reached_from_outside("b", 81));
    world.policy("n", "p", block(value!(["192.0.2.2/32"])));
    world.enforce();
    assert!(!world.is_reached_from_outside("b", 80));
}

#[test]
fn long_policies_are_enforced() {
    let mut world = two();
    let long = |first: &str| {
        let except = (10..210).map(|i| Value::from(format!("192.0.2.{i}/32")));
        let except: Vec<Value> = [Value::from(first)].into_iter().chain(except).collect();
        let far = (0..70).map(|i| value!({"ipBlock": {"cidr": (format!("198.51.100.{i}/32"))}}));
        let near = value!({"ipBlock": {"cidr": "192.0.2.0/24", "except": (except)}});
        let ports: Vec<Value> = (10..=80).map(|port| value!({"port": (port)})).collect();
        value!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": [
            {"from": (far.chain([near]).collect::<Vec<_>>()), "ports": (ports)},
        ]})
    };
    world.policy("n", "p", long("192.0.2.9/32"));
    world.enforce();
    assert!(world.is_reached_from_outside("b", 80));
    assert!(!world.is_reached_from_outside("b", 81));
    world.policy("n", "p", long("192.0.2.2/32"));
    world.enforce();
    assert!(!world.is_reached_from_outside("b", 80));
}

#[test]
fn egress_policies_have_port_ranges() {
    let mut world = two();
    let a = value!({"matchLabels": {"app": "a"}});
    world.policy(
        "n",
        "p",
        value!({"podSelector": (a), "policyTypes": ["Egress"], "egress": [
            {"to": [{"ipBlock": {"cidr": "192.0.2.2/32"}}], "ports": [{"port": 70, "endPort": 80}]},
        ]}),
    );
    world.enforce();
    let (outside, b) = (OUTSIDE.parse().unwrap(), world.pods["b"].address);
    assert!(world.pods["a"].reaches(outside, 80));
    assert!(!world.pods["a"].reaches(outside, 81));
    assert!(!world.pods["a"].reaches(b, 80));
    assert!(world.pods["b"].reaches(world.pods["a"].address, 80), "it is not isolated in this direction");
}

#[test]
fn a_port_has_one_protocol() {
    let mut world = two();
    world.pods["b"].serve_udp_and_sctp(80);
    world.pods["b"].serve_udp_and_sctp(81);
    let (a, b) = (&world.pods["a"], world.pods["b"].address);
    let protocols = ["TCP", "UDP", "SCTP"];
    for protocol in protocols {
        assert!(a.reaches_over(protocol, b, 80), "{protocol} without policies");
    }
    for (kind, rules, app) in [("Ingress", "ingress", "b"), ("Egress", "egress", "a")] {
        for allowed in protocols {
            let mut policy =
                value!({"podSelector": {"matchLabels": {"app": (app)}}, "policyTypes": [(kind)]});
            policy.set(&[rules], value!([{"ports": [{"protocol": (allowed), "port": 80}]}]));
            world.policy("n", "p", policy);
            world.enforce();
            let a = &world.pods["a"];
            let ports = protocols.iter().flat_map(|protocol| [(*protocol, 80), (*protocol, 81)]);
            thread::scope(|scope| {
                let ask = |(protocol, port)| {
                    scope.spawn(move || (a.reaches_over(protocol, b, port), protocol, port))
                };
                for asked in ports.map(ask).collect::<Vec<_>>() {
                    let (reached, protocol, port) = asked.join().unwrap();
                    let expected = protocol == allowed && port == 80;
                    assert_eq!(reached, expected, "{kind}: {protocol} {port} where {allowed} 80 is allowed");
                }
            });
        }
    }
}

#[test]
fn a_named_port_is_the_pods() {
    let mut world = two();
    let web =
        value!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": [{"ports": [{"port": "web"}]}]});
    world.policy("n", "p", web);
    world.enforce();
    let b = world.pods["b"].address;
    assert!(world.pods["a"].reaches(b, 80));
    assert!(!world.pods["a"].reaches(b, 81));
}

#[test]
fn connections_stay_and_rules_outlive_the_process() {
    let mut world = two();
    let b = world.pods["b"].address;
    let mut connection = world.pods["a"].connect(b, 80);
    world.policy("n", "deny", value!({"podSelector": {}}));
    world.enforce();
    connection.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    connection.write_all(b"!").unwrap();
    connection.read_exact(&mut [0]).unwrap();
    world.restart();
    assert!(!world.pods["a"].reaches(b, 80), "before the new process has synced");
    world.enforce();
    assert!(!world.pods["a"].reaches(b, 80));
    let policy = value!({"metadata": {"namespace": "n", "name": "deny"}, "spec": {"podSelector": {}}});
    world.inputs.policy(&gone(&policy));
    world.enforce();
    assert!(world.pods["a"].reaches(b, 80));
}

#[test]
fn pods_cannot_evade_policies_by_bypassing_the_gateway_or_spoofing() {
    for bridge_netfilter in [false, true] {
        let mut world = two();
        world.pod("n", "c", value!({"app": "c"}));
        world.set_bridge_netfilter(bridge_netfilter);
        let from_c = value!([{"from": [{"podSelector": {"matchLabels": {"app": "c"}}}]}]);
        let b = value!({"matchLabels": {"app": "b"}});
        world.policy("n", "only-c", value!({"podSelector": (b), "ingress": (from_c)}));
        world.enforce();
        let (a, b, c) = (&world.pods["a"], &world.pods["b"], &world.pods["c"]);
        assert!(c.sends_as(c.address, b), "it is allowed");
        assert!(!a.sends_as(a.address, b), "it is not");
        a.take_address(c.address);
        assert!(!a.sends_as(c.address, b), "its source address is spoofed");
        a.bypass_gateway(b.address);
        assert!(!a.sends_as(a.address, b), "no frame goes from pod to pod");
        assert!(!a.reaches(b.address, 80));
        assert!(!a.sends_as(c.address, b));
    }
}
