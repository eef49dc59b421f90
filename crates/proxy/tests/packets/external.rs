//! Traffic to node ports, external IPs and addresses of load balancers.

use corten_api::value;
use corten_proxy::Mode;

use crate::cluster_ips::in_each_mode;
use crate::world::{GATEWAY, NODE, NODE6, OUTSIDE, QUIET, REMOTE, World, at, endpoints, web};

fn a_node_port_is_open_on_the_node(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({"type": "NodePort"})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    assert_eq!(world.outside.reaches(at(NODE, 30080)), format!("one {GATEWAY}"));
    assert_eq!(client.reaches(at(NODE, 30080)), format!("one {GATEWAY}"));
    assert!(world.node.reaches(at(NODE, 30080)).starts_with("one "));
    world.slice(&endpoints(&[]));
    world.outside.is_refused(at(NODE, 30080));
}

fn a_node_port_reaches_endpoints_on_other_nodes(mode: Mode) {
    let mut world = World::new(mode);
    world.outside.serve_as(&format!("{REMOTE}:8080"), "remote");
    world.service(&web(&value!({"type": "NodePort"})));
    world.slice(&endpoints(&[(REMOTE, "there")]));
    assert_eq!(world.outside.reaches(at(NODE, 30080)), format!("remote {NODE}"));
}

fn external_local_policy_keeps_the_source(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.outside.serve_as(&format!("{REMOTE}:8080"), "remote");
    world.service(&web(&value!({"type": "NodePort", "externalTrafficPolicy": "Local"})));
    let ip = ip.to_string();
    world.slice(&endpoints(&[(&ip, "here"), (REMOTE, "there")]));
    for _ in 0..10 {
        assert_eq!(world.outside.reaches(at(NODE, 30080)), format!("one {OUTSIDE}"));
    }
    client.reaches_each(at(NODE, 30080), &["one", "remote"]);
    world.node.reaches_each(at(NODE, 30080), &["one", "remote"]);
    world.slice(&endpoints(&[(REMOTE, "there")]));
    world.outside.times_out(at(NODE, 30080));
    assert!(
        client.reaches(at(NODE, 30080)).starts_with("remote "),
        "traffic of the cluster itself is admitted"
    );
}

fn node_ports_are_open_at_the_configured_addresses(mode: Mode) {
    let ranges = vec!["198.51.100.0/24".parse().unwrap()];
    let mut world = World::with(mode, |config| config.node_port_addresses = ranges);
    world.node.address("uplink", "198.51.100.7/32");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({"type": "NodePort"})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    assert!(world.outside.reaches(at("198.51.100.7", 30080)).starts_with("one "));
    world.outside.is_refused(at(NODE, 30080));
}

fn external_ips_reach_endpoints(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({"externalIPs": ["198.51.100.9"]})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    assert!(world.outside.reaches(at("198.51.100.9", 80)).starts_with("one "));
    assert!(world.node.reaches(at("198.51.100.9", 80)).starts_with("one "));
    world.slice(&endpoints(&[]));
    world.outside.is_refused(at("198.51.100.9", 80));
}

/// Attacks: a Service declares addresses of the node as its external IPs.
fn addresses_of_the_node_are_not_taken_over(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "taken over");
    world.node.serve_as(&format!("{NODE}:80"), "kubelet");
    world.node.address("uplink", "198.51.100.7/32");
    world.node.serve_as("198.51.100.7:80", "kubelet");
    world.node.serve_as("127.0.0.1:80", "kubelet");
    let own = [NODE, "198.51.100.7", "127.0.0.1", GATEWAY];
    let claims: Vec<_> = own.iter().map(|ip| corten_api::Value::from(*ip)).collect();
    world.service(&web(&value!({"externalIPs": (claims)})));
    for endpoints in [endpoints(&[(&ip.to_string(), "here")]), endpoints(&[])] {
        world.slice(&endpoints);
        for address in [NODE, "198.51.100.7"] {
            for from in [&world.node, &client, &world.outside] {
                assert!(from.reaches(at(address, 80)).starts_with("kubelet "), "{address}");
            }
        }
        assert!(world.node.reaches(at("127.0.0.1", 80)).starts_with("kubelet "));
    }
}

/// A Service cannot take over the addresses of other nodes and of API servers either.
fn addresses_of_other_nodes_and_api_servers_are_not_taken_over(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "taken over");
    world.outside.serve_as(&format!("{OUTSIDE}:80"), "the other's kubelet");
    world.outside.serve_as(&format!("{REMOTE}:80"), "API server");
    world.node_elsewhere("there", OUTSIDE);
    world.slice(&value!({
        "metadata": {
            "namespace": "default", "name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4", "ports": [{"name": "https", "port": 80}], "endpoints": [{"addresses": [(REMOTE)]}],
    }));
    let claims = value!([(OUTSIDE), (REMOTE)]);
    world.service(&web(&value!({"externalIPs": (claims.clone())})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    let is_safe = |world: &World| {
        for from in [&world.node, &client] {
            assert!(from.reaches(at(OUTSIDE, 80)).starts_with("the other's kubelet "));
            assert!(from.reaches(at(REMOTE, 80)).starts_with("API server "));
        }
    };
    is_safe(&world);
    let mut balanced = web(&value!({"type": "LoadBalancer"}));
    balanced.set(&["status", "loadBalancer", "ingress"], value!([{"ip": (OUTSIDE)}, {"ip": (REMOTE)}]));
    world.service(&balanced);
    is_safe(&world);
}

fn load_balancers_admit_their_source_ranges(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    let (client, _) = world.pod("client");
    pod.serve_as("0.0.0.0:8080", "one");
    let mut balanced = web(&value!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.2/32"]}));
    balanced.set(&["status", "loadBalancer", "ingress"], value!([{"ip": "198.51.100.20"}]));
    world.service(&balanced);
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    assert!(world.outside.reaches(at("198.51.100.20", 80)).starts_with("one "));
    client.times_out(at("198.51.100.20", 80));
    assert!(client.reaches(at(NODE, 30080)).starts_with("one "), "node ports have no source ranges");
    balanced
        .set(&["status", "loadBalancer", "ingress"], value!([{"ip": "198.51.100.20", "ipMode": "Proxy"}]));
    world.service(&balanced);
    let gone = world.outside.request(at("198.51.100.20", 80), QUIET);
    assert!(gone.is_err(), "a load balancer with ipMode Proxy sends to node ports: {gone:?}");
}

fn node_ports_work_over_ipv6(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, _) = world.pod("one");
    pod.serve_as("[::]:8080", "one");
    world.service(&web(&value!({"type": "NodePort"})));
    world.slice(&endpoints(&[("fd00:244:1::2", "here")]));
    assert_eq!(world.outside.reaches(at(NODE6, 30080)), "one fd00:244:1::1");
}

in_each_mode!(
    a_node_port_is_open_on_the_node,
    a_node_port_reaches_endpoints_on_other_nodes,
    external_local_policy_keeps_the_source,
    node_ports_are_open_at_the_configured_addresses,
    external_ips_reach_endpoints,
    addresses_of_the_node_are_not_taken_over,
    addresses_of_other_nodes_and_api_servers_are_not_taken_over,
    load_balancers_admit_their_source_ranges,
    node_ports_work_over_ipv6,
);
