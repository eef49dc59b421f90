//! Traffic to cluster IPs.

use corten_api::value;
use corten_proxy::Mode;

use crate::world::{GATEWAY, NODE, OUTSIDE, QUIET, REMOTE, World, at, endpoints, web};

fn a_cluster_ip_reaches_every_endpoint(mode: Mode) {
    let mut world = World::new(mode);
    let (one, one_ip) = world.pod("one");
    let (two, two_ip) = world.pod("two");
    let (client, _) = world.pod("client");
    one.serve_as("0.0.0.0:8080", "one");
    two.serve_as("0.0.0.0:8080", "two");
    world.service(&web(&value!({})));
    let (one_ip, two_ip) = (one_ip.to_string(), two_ip.to_string());
    world.slice(&endpoints(&[(&one_ip, "here"), (&two_ip, "here")]));
    client.reaches_each(at("10.96.0.1", 80), &["one", "two"]);
    world.node.reaches_each(at("10.96.0.1", 80), &["one", "two"]);
    world.slice(&endpoints(&[(&two_ip, "here")]));
    assert_eq!(client.reaches(at("10.96.0.1", 80)), "two 10.244.1.4", "the source is kept");
    world.slice(&endpoints(&[]));
    client.is_refused(at("10.96.0.1", 80));
    world.node.is_refused(at("10.96.0.1", 80));
}

fn a_pod_reaches_itself(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    assert_eq!(pod.reaches(at("10.96.0.1", 80)), format!("one {GATEWAY}"));
}

fn endpoints_may_be_on_other_nodes(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    world.outside.serve_as(&format!("{REMOTE}:8080"), "remote");
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(REMOTE, "there")]));
    assert_eq!(client.reaches(at("10.96.0.1", 80)).split(' ').next(), Some("remote"));
    assert_eq!(world.node.reaches(at("10.96.0.1", 80)), format!("remote {NODE}"));
}

fn traffic_from_outside_the_cluster_is_masqueraded(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    let answer = world.outside.reaches(at("10.96.0.1", 80));
    assert_eq!(answer, format!("one {GATEWAY}"), "rather than {OUTSIDE}");
}

fn internal_local_policy_keeps_traffic_on_the_node(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.outside.serve_as(&format!("{REMOTE}:8080"), "remote");
    world.service(&web(&value!({"internalTrafficPolicy": "Local"})));
    world.slice(&endpoints(&[(&ip.to_string(), "here"), (REMOTE, "there")]));
    for _ in 0..10 {
        assert!(client.reaches(at("10.96.0.1", 80)).starts_with("one "));
    }
    world.slice(&endpoints(&[(REMOTE, "there")]));
    client.times_out(at("10.96.0.1", 80));
}

fn both_families_work(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, _) = world.pod("one");
    pod.serve_as("[::]:8080", "one");
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[("fd00:244:1::3", "here")]));
    assert_eq!(client.reaches(at("fd00:96::1", 80)), "one fd00:244:1::2");
    client.is_refused(at("10.96.0.1", 80));
}

/// A deleted Service, and ports that a Service does not have.
fn unknown_ports_and_deleted_services_are_refused(mode: Mode) {
    let mut world = World::new(mode);
    let (client, _) = world.pod("client");
    let (pod, ip) = world.pod("one");
    pod.serve_as("0.0.0.0:8080", "one");
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    client.reaches(at("10.96.0.1", 80));
    if mode == Mode::Nftables {
        client.is_refused(at("10.96.0.1", 81));
    }
    world.service(&web(&value!({"clusterIP": "None", "clusterIPs": ["None"]})));
    let gone = client.request(at("10.96.0.1", 80), QUIET);
    assert!(gone.is_err(), "{gone:?}");
}

macro_rules! in_each_mode {
    ($($case:ident),+ $(,)?) => {
        mod nftables {
            $(#[test] fn $case() { super::$case(corten_proxy::Mode::Nftables); })+
        }
        mod iptables {
            $(#[test] fn $case() { super::$case(corten_proxy::Mode::Iptables); })+
        }
    };
}
pub(crate) use in_each_mode;

in_each_mode!(
    a_cluster_ip_reaches_every_endpoint,
    a_pod_reaches_itself,
    endpoints_may_be_on_other_nodes,
    traffic_from_outside_the_cluster_is_masqueraded,
    internal_local_policy_keeps_traffic_on_the_node,
    both_families_work,
    unknown_ports_and_deleted_services_are_refused,
);
