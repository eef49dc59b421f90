//! UDP: what the kernel remembers of flows must not outlive endpoints.

use corten_api::{Value, value};
use corten_proxy::Mode;

use crate::cluster_ips::in_each_mode;
use crate::world::{NODE, World, ask_udp, at, endpoints, web};

fn dns() -> Value {
    web(&value!({
        "type": "NodePort", "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}],
    }))
}

fn a_flow_follows_its_service(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (two, two_ip) = world.pod("two");
    let (client, _) = world.pod("client");
    one.serve_udp("0.0.0.0:5353", "one");
    two.serve_udp("0.0.0.0:5353", "two");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    let (from_pod, from_outside) = (client.udp(), world.outside.udp());
    let (service, node) = (at("10.96.0.1", 53), at(NODE, 30053));
    assert!(ask_udp(&from_pod, service).unwrap().starts_with("one "));
    assert!(ask_udp(&from_outside, node).unwrap().starts_with("one "));
    // The same socket, so the same flow: the kernel would go on sending to the first endpoint.
    world.slice(&endpoints(&[(&two_ip.to_string(), "here")]));
    assert!(ask_udp(&from_pod, service).unwrap().starts_with("two "));
    assert!(ask_udp(&from_outside, node).unwrap().starts_with("two "));
}

fn a_flow_that_began_too_early_gets_through(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (client, _) = world.pod("client");
    one.serve_udp("0.0.0.0:5353", "one");
    let (socket, service) = (client.udp(), at("10.96.0.1", 53));
    // There is no service yet: the datagram leaves for nowhere, and its flow is remembered.
    let early = ask_udp(&socket, service);
    assert!(early.is_err(), "{early:?}");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    // A busy machine may lose a datagram; the flow, if it were still remembered, would lose all of them.
    let answer = (0..5).find_map(|_| ask_udp(&socket, service).ok());
    assert!(answer.is_some_and(|answer| answer.starts_with("one ")));
}

fn without_endpoints_flows_end(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (client, _) = world.pod("client");
    one.serve_udp("0.0.0.0:5353", "one");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    let (socket, service) = (client.udp(), at("10.96.0.1", 53));
    assert!(ask_udp(&socket, service).is_ok());
    world.slice(&endpoints(&[]));
    let answer = ask_udp(&socket, service);
    assert!(answer.is_err(), "{answer:?}");
}

in_each_mode!(
    a_flow_follows_its_service,
    a_flow_that_began_too_early_gets_through,
    without_endpoints_flows_end
);
