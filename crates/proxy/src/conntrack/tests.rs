use corten_client::Key;

use super::*;
use crate::route::Routed;
use crate::service::{PortName, ServicePort};

fn routed(protocol: Protocol, serving: &[&str]) -> Routed {
    Routed {
        port: ServicePort {
            name: PortName { service: Key::new("n", "dns"), port: "dns".into(), protocol },
            cluster_ip: "10.96.0.10".parse().unwrap(),
            port: 53,
            node_port: Some(30053),
            external_ips: vec!["192.0.2.5".parse().unwrap()],
            load_balancer_ips: vec!["192.0.2.6".parse().unwrap()],
            source_ranges: Vec::new(),
            affinity: None,
            internal_local: false,
            external_local: false,
            health_check_port: None,
        },
        cluster: Vec::new(),
        local: Vec::new(),
        reachable: Vec::new(),
        has_endpoints: !serving.is_empty(),
        serving: serving.iter().map(|address| address.parse().unwrap()).collect(),
    }
}

#[track_caller]
fn check(routed: &Routed, protocol: u8, destination: &str, answers: &str, stale: bool) {
    let frontends = Frontends::of([routed]);
    let source = "10.244.0.9:4711".parse().unwrap();
    let flow = Flow::new(protocol, source, destination.parse().unwrap(), answers.parse().unwrap());
    assert_eq!(frontends.is_stale(&flow), stale, "{destination} answered by {answers}");
}

#[test]
fn flows_to_serving_endpoints_are_kept() {
    let dns = routed(Protocol::Udp, &["10.244.0.2:53", "10.244.0.3:53"]);
    for to in ["10.96.0.10:53", "192.0.2.5:53", "192.0.2.6:53", "192.0.2.1:30053"] {
        check(&dns, 17, to, "10.244.0.2:53", false);
        check(&dns, 17, to, "10.244.0.9:53", true);
    }
    check(&dns, 17, "10.96.0.10:53", "10.244.0.2:54", true);
    check(&dns, 17, "10.96.0.11:53", "10.96.0.11:53", false);
    check(&dns, 6, "10.96.0.10:53", "10.244.0.9:53", false);
}

#[test]
fn flows_that_were_never_translated_are_stale() {
    let dns = routed(Protocol::Udp, &["10.244.0.2:53"]);
    check(&dns, 17, "10.96.0.10:53", "10.96.0.10:53", true);
}

#[test]
fn without_endpoints_only_flows_to_the_services_own_addresses_are_stale() {
    let dns = routed(Protocol::Udp, &[]);
    check(&dns, 17, "10.96.0.10:53", "10.244.0.2:53", true);
    check(&dns, 17, "203.0.113.1:30053", "203.0.113.1:30053", false);
}

#[test]
fn tcp_flows_are_never_stale() {
    assert!(Frontends::of([&routed(Protocol::Tcp, &["10.244.0.2:53"])]).is_empty());
}
