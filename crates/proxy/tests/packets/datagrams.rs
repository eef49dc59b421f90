//! UDP: conntrack entries must not outlive endpoints.

use corten_api::{Value, value};
use corten_proxy::Mode;

use crate::cluster_ips::in_each_mode;
use crate::world::{NODE, QUIET, World, at, endpoints, exchange_udp, web};

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
    one.serve_udp_as("0.0.0.0:5353", "one");
    two.serve_udp_as("0.0.0.0:5353", "two");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    let (service, node) = (at("10.96.0.1", 53), at(NODE, 30053));
    let from_pod = client.udp_socket(service, QUIET);
    let from_outside = world.outside.udp_socket(node, QUIET);
    assert!(exchange_udp(&from_pod, service).unwrap().starts_with("one "));
    assert!(exchange_udp(&from_outside, node).unwrap().starts_with("one "));
    // The same socket, so the same flow: the kernel would go on sending to the first endpoint.
    world.slice(&endpoints(&[(&two_ip.to_string(), "here")]));
    assert!(exchange_udp(&from_pod, service).unwrap().starts_with("two "));
    assert!(exchange_udp(&from_outside, node).unwrap().starts_with("two "));
}

fn a_flow_from_before_the_service_gets_through(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (client, _) = world.pod("client");
    one.serve_udp_as("0.0.0.0:5353", "one");
    let service = at("10.96.0.1", 53);
    let socket = client.udp_socket(service, QUIET);
    // There is no Service yet: the datagram is lost, and conntrack has an entry of its flow.
    let early = exchange_udp(&socket, service);
    assert!(early.is_err(), "{early:?}");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    // A busy machine may lose a datagram; with a stale conntrack entry all of them would be lost.
    let answer = (0..5).find_map(|_| exchange_udp(&socket, service).ok());
    assert!(answer.is_some_and(|answer| answer.starts_with("one ")));
}

fn flows_end_without_endpoints(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (client, _) = world.pod("client");
    one.serve_udp_as("0.0.0.0:5353", "one");
    world.service(&dns());
    world.slice(&endpoints(&[(&one_ip.to_string(), "here")]));
    let service = at("10.96.0.1", 53);
    let socket = client.udp_socket(service, QUIET);
    assert!(exchange_udp(&socket, service).is_ok());
    world.slice(&endpoints(&[]));
    let answer = exchange_udp(&socket, service);
    assert!(answer.is_err(), "{answer:?}");
}

in_each_mode!(
    a_flow_follows_its_service,
    a_flow_from_before_the_service_gets_through,
    flows_end_without_endpoints
);
