//! SCTP: associations are redirected to endpoints as connections are.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use corten_api::{Value, value};
use corten_proxy::Mode;

use crate::cluster_ips::in_each_mode;
use crate::world::{DEADLINE, GATEWAY, NODE, NODE6, Netns, OUTSIDE, QUIET, World, at, endpoints, web};

fn signal(more: &Value) -> Value {
    let mut service = web(&value!({
        "type": "NodePort", "ports": [{"name": "signal", "port": 3868, "protocol": "SCTP", "nodePort": 30386}],
    }));
    for (key, value) in more.as_object().unwrap().iter() {
        service.set(&["spec", key], value.clone());
    }
    service
}

/// The names of the servers that answered some associations.
fn servers_of(from: &Netns, address: SocketAddr) -> BTreeSet<String> {
    let names = (0..40).map(|_| from.reaches_sctp(address).split(' ').next().unwrap().to_owned());
    names.collect()
}

fn associations_reach_every_endpoint(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (two, two_ip) = world.pod("two");
    let (client, client_ip) = world.pod("client");
    one.serve_sctp("0.0.0.0:38", "one");
    two.serve_sctp("0.0.0.0:38", "two");
    world.service(&signal(&value!({})));
    let (one_ip, two_ip) = (one_ip.to_string(), two_ip.to_string());
    world.slice(&endpoints(&[(&one_ip, "here"), (&two_ip, "here")]));
    let both = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    let (service, node) = (at("10.96.0.1", 3868), at(NODE, 30386));
    for (from, address) in [(&client, service), (&world.outside, node), (&world.node, service)] {
        assert_eq!(servers_of(from, address), both, "{address}");
    }
    world.slice(&endpoints(&[(&two_ip, "here")]));
    assert_eq!(client.reaches_sctp(service), format!("two {client_ip}"), "the source is kept");
    assert_eq!(world.outside.reaches_sctp(node), format!("two {GATEWAY}"), "rather than {OUTSIDE}");
    assert_eq!(two.reaches_sctp(service), format!("two {GATEWAY}"), "to itself");
    // TCP at the same port is not redirected.
    assert!(client.request(service, QUIET).is_err());
    world.slice(&endpoints(&[]));
    let refused = client.request_sctp(service, DEADLINE).map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
}

fn local_policy_keeps_the_source_and_affinity_the_endpoint(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (two, two_ip) = world.pod("two");
    one.serve_sctp("0.0.0.0:38", "one");
    two.serve_sctp("0.0.0.0:38", "two");
    world.service(&signal(&value!({"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"})));
    world.slice(&endpoints(&[(&one_ip.to_string(), "here"), (&two_ip.to_string(), "here")]));
    let node = at(NODE, 30386);
    assert_eq!(servers_of(&world.outside, node).len(), 1);
    assert!(world.outside.reaches_sctp(node).ends_with(&format!(" {OUTSIDE}")));
}

fn associations_work_in_both_families(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, _) = world.pod("one");
    pod.serve_sctp("[::]:38", "one");
    world.service(&signal(&value!({"clusterIPs": ["fd00:96::1"], "clusterIP": "fd00:96::1"})));
    world.slice(&endpoints(&[("fd00:244:1::3", "here")]));
    assert_eq!(client.reaches_sctp(at("fd00:96::1", 3868)), "one fd00:244:1::2");
    assert_eq!(world.outside.reaches_sctp(at(NODE6, 30386)), "one fd00:244:1::1");
}

in_each_mode!(
    associations_reach_every_endpoint,
    local_policy_keeps_the_source_and_affinity_the_endpoint,
    associations_work_in_both_families
);
