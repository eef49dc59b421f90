//! Upstream's cases of endpoint selection.

use corten_client::Key;
use corten_net::Protocol;

use super::*;
use crate::service::PortName;

/// A port: `internal` and `external` are local policies, `node_port` makes it reachable from outside.
fn port(internal: bool, external: bool, node_port: bool) -> ServicePort {
    ServicePort {
        name: PortName { service: Key::new("n", "s"), port: "p".into(), protocol: Protocol::Tcp },
        cluster_ip: [10, 96, 0, 1].into(),
        port: 80,
        node_port: node_port.then_some(30080),
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_local: internal,
        external_local: external,
        health_check_port: None,
    }
}

/// Parses `1 ready here zone=a node=x`: the last number of the address, conditions, location and hints.
fn endpoint(text: &str) -> Endpoint {
    let mut words = text.split(' ');
    let number: u8 = words.next().unwrap().parse().unwrap();
    let mut endpoint = Endpoint {
        address: SocketAddr::new([10, 0, 0, number].into(), 80),
        local: false,
        ready: false,
        serving: false,
        terminating: false,
        zones: Vec::new(),
        nodes: Vec::new(),
    };
    for word in words {
        match word.split_once('=') {
            Some(("zone", zone)) => endpoint.zones.push(zone.into()),
            Some(("node", node)) => endpoint.nodes.push(node.into()),
            _ => match word {
                "ready" => (endpoint.ready, endpoint.serving) = (true, true),
                "ending" => (endpoint.serving, endpoint.terminating) = (true, true),
                "ended" => endpoint.terminating = true,
                "here" => endpoint.local = true,
                other => panic!("{other}"),
            },
        }
    }
    endpoint
}

/// `cluster`, `local` and `reachable` are last numbers of addresses; `any` is `has_endpoints`.
#[track_caller]
fn check(port: ServicePort, endpoints: &[&str], cluster: &[u8], local: &[u8], reachable: &[u8], any: bool) {
    let node = Node { name: "here".into(), zone: "a".into(), addresses: Vec::new() };
    let endpoints: Vec<Endpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
    let routed = route(port, &endpoints, &node);
    let numbers = |targets: &[Target]| -> Vec<u8> {
        targets
            .iter()
            .map(|target| target.address.to_string()[7..].split(':').next().unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(
        (numbers(&routed.cluster), numbers(&routed.local), numbers(&routed.reachable), routed.has_endpoints),
        (cluster.to_vec(), local.to_vec(), reachable.to_vec(), any)
    );
}

#[test]
fn without_hints_all_ready_endpoints_are_selected() {
    check(port(false, false, false), &[], &[], &[], &[], false);
    check(port(false, false, false), &["1 ready", "2", "3 ready here"], &[1, 3], &[], &[1, 3], true);
}

#[test]
fn zone_hints_apply_if_all_have_them_and_some_match() {
    let all = ["1 ready zone=a", "2 ready zone=b", "3 ready zone=a zone=b"];
    check(port(false, false, false), &all, &[1, 3], &[], &[1, 3], true);
    let one_without = ["1 ready zone=a", "2 ready zone=b", "3 ready"];
    check(port(false, false, false), &one_without, &[1, 2, 3], &[], &[1, 2, 3], true);
    let none_for_here = ["1 ready zone=b", "2 ready zone=c"];
    check(port(false, false, false), &none_for_here, &[1, 2], &[], &[1, 2], true);
    let unready_without = ["1 ready zone=a", "2 ready zone=b", "3"];
    check(port(false, false, false), &unready_without, &[1], &[], &[1], true);
}

#[test]
fn node_hints_are_preferred_to_zone_hints() {
    let both = ["1 ready node=here zone=b", "2 ready node=there zone=a"];
    check(port(false, false, false), &both, &[1], &[], &[1], true);
    let not_for_here = ["1 ready node=x zone=b", "2 ready node=there zone=a"];
    check(port(false, false, false), &not_for_here, &[2], &[], &[2], true);
    let one_without = ["1 ready node=here zone=b", "2 ready zone=a"];
    check(port(false, false, false), &one_without, &[2], &[], &[2], true);
}

#[test]
fn serving_terminating_endpoints_are_selected_if_none_is_ready() {
    let ending = ["1 ending", "2 ended", "3"];
    check(port(false, false, false), &ending, &[1], &[], &[1], true);
    check(port(false, false, false), &["1 ending", "2 ready"], &[2], &[], &[2], true);
    check(port(false, false, false), &["2 ended", "3"], &[], &[], &[], false);
    let hinted_elsewhere = ["1 ending zone=a", "2 ready zone=b"];
    check(port(false, false, false), &hinted_elsewhere, &[2], &[], &[2], true);
}

#[test]
fn internal_local_stays_on_the_node() {
    let all = ["1 ready here", "2 ready", "3 ending here"];
    check(port(true, false, false), &all, &[], &[1], &[1], true);
    check(port(true, false, false), &["2 ready"], &[], &[], &[], true);
    check(port(true, false, false), &["3 ending here", "2 ready"], &[], &[3], &[3], true);
    check(port(true, false, false), &["3 ended here"], &[], &[], &[], false);
    check(port(true, false, true), &all, &[1, 2], &[1], &[1, 2], true);
}

#[test]
fn external_local_needs_both_kinds() {
    let all = ["1 ready here", "2 ready", "3 ready here"];
    check(port(false, true, true), &all, &[1, 2, 3], &[1, 3], &[1, 2, 3], true);
    check(port(false, true, false), &all, &[1, 2, 3], &[], &[1, 2, 3], true);
    check(port(false, true, true), &["1 ending here", "2 ready"], &[2], &[1], &[1, 2], true);
    let hinted = ["1 ready here zone=b", "2 ready zone=a"];
    check(port(false, true, true), &hinted, &[2], &[1], &[1, 2], true);
}

#[test]
fn ports_without_endpoints_are_reported() {
    let node = Node { name: "here".into(), ..Node::default() };
    let routed = |port, endpoints: &[&str]| {
        let endpoints: Vec<Endpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
        let routed = route(port, &endpoints, &node);
        (routed.has_internal_endpoints(), routed.has_external_endpoints())
    };
    assert_eq!(routed(port(true, true, true), &["1 ready"]), (false, false));
    assert_eq!(routed(port(true, false, true), &["1 ready"]), (false, true));
    assert_eq!(routed(port(false, true, true), &["1 ready"]), (true, false));
    assert_eq!(routed(port(false, true, true), &["1 ready here"]), (true, true));
    assert_eq!(routed(port(false, false, true), &[]), (false, false));
}
