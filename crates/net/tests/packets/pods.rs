//! Reachability between pods, the node and machines outside, and the source addresses they see.

use corten_net::Error;

use crate::world::{NODE, NODE6, Netns, OUTSIDE, OUTSIDE6, World, at};

#[test]
fn pods_reach_each_other_and_the_node_as_themselves() {
    let world = World::new(&["10.244.1.0/24"]);
    let (a, a_ips) = world.pod("a", &[]);
    let (b, b_ips) = world.pod("b", &[]);
    assert_eq!((a_ips[0].to_string(), b_ips[0].to_string()), ("10.244.1.2".into(), "10.244.1.3".into()));
    let on_b = b.serve("0.0.0.0:0");
    assert_eq!(a.reaches(at(&b_ips[0], on_b.port())), "10.244.1.2");
    assert_eq!(world.node.reaches(at(&b_ips[0], on_b.port())), "10.244.1.1");
    let on_node = world.node.serve("0.0.0.0:0");
    assert_eq!(a.reaches(at("10.244.1.1", on_node.port())), "10.244.1.2");
    assert_eq!(a.reaches(at(NODE, on_node.port())), "10.244.1.2");
    assert_eq!(b.reaches(at("127.0.0.1", on_b.port())), "127.0.0.1", "a pod has its loopback");
}

#[test]
fn traffic_that_leaves_the_cluster_is_masqueraded() {
    let world = World::new(&["10.244.1.0/24", "fd00:244:1::/64"]);
    let (pod, ips) = world.pod("a", &[]);
    let (on4, on6) = (world.outside.serve("0.0.0.0:0"), world.outside.serve("[::]:0"));
    assert_eq!(pod.reaches(at(OUTSIDE, on4.port())), NODE);
    assert_eq!(pod.reaches(at(OUTSIDE6, on6.port())), NODE6);
    let in_pod = pod.serve("0.0.0.0:0");
    world.outside.does_not_reach(at(&ips[0], in_pod.port()));
}

#[test]
fn both_families_work_side_by_side() {
    let world = World::new(&["10.244.1.0/24", "fd00:244:1::/64"]);
    let (a, a_ips) = world.pod("a", &[]);
    let (b, b_ips) = world.pod("b", &[]);
    assert_eq!(a_ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.244.1.2", "fd00:244:1::2"]);
    let (on4, on6) = (b.serve("0.0.0.0:0"), b.serve("[::]:0"));
    assert_eq!(a.reaches(at(&b_ips[0], on4.port())), "10.244.1.2");
    assert_eq!(a.reaches(at(&b_ips[1], on6.port())), "fd00:244:1::2");
    assert_eq!(world.node.reaches(at(&b_ips[1], on6.port())), "fd00:244:1::1");
}

#[test]
fn a_network_may_be_ipv6_only() {
    let world = World::new(&["fd00:244:1::/64"]);
    let (a, _) = world.pod("a", &[]);
    let (b, b_ips) = world.pod("b", &[]);
    let on6 = b.serve("[::]:0");
    assert_eq!(a.reaches(at(&b_ips[0], on6.port())), "fd00:244:1::2");
}

#[test]
fn pods_have_the_mtu_of_the_uplink() {
    let world = World::new(&["10.244.1.0/24"]);
    let (pod, _) = world.pod("a", &[]);
    assert_eq!(pod.routing().link("eth0").unwrap().unwrap().mtu, 1400);
    assert_eq!(world.node.routing().link("pods0").unwrap().unwrap().mtu, 1400);
}

#[test]
fn no_pod_is_attached_without_a_pod_cidr() {
    let world = World::new(&[]);
    assert_eq!(world.network.not_ready().as_deref(), Some("the node has no pod CIDR yet"));
    let pod = Netns::new();
    let refused = world.network.attach("a", &pod.path(), &[]);
    assert!(matches!(refused, Err(Error::NoPodCidr)), "{refused:?}");
    world.set_pod_cidrs(&["10.244.1.0/24"]);
    assert_eq!(world.network.not_ready(), None);
    world.attach("a", &pod, &[]);
}

#[test]
fn a_full_network_refuses_pods_until_one_is_detached() {
    let world = World::new(&["10.244.1.0/29"]);
    let pods: Vec<_> = (0..5).map(|n| world.pod(&format!("pod-{n}"), &[])).collect();
    let late = Netns::new();
    let refused = world.network.attach("late", &late.path(), &[]);
    assert!(matches!(refused, Err(Error::Exhausted(_))), "{refused:?}");
    world.network.detach("pod-3").unwrap();
    assert_eq!(world.attach("late", &late, &[]), pods[3].1);
}

#[test]
fn a_released_address_is_not_reused_at_once() {
    let world = World::new(&["10.244.1.0/24"]);
    let (_a, first) = world.pod("a", &[]);
    world.network.detach("a").unwrap();
    let (_b, second) = world.pod("b", &[]);
    assert_ne!(first, second);
}

#[test]
fn pods_keep_their_addresses_when_the_pod_cidr_changes() {
    let world = World::new(&["10.244.1.0/24"]);
    let (old, old_ips) = world.pod("old", &[]);
    world.set_pod_cidrs(&["10.244.9.0/24"]);
    let (new, new_ips) = world.pod("new", &[]);
    assert_eq!(new_ips[0].to_string(), "10.244.9.2");
    let (on_old, on_new) = (old.serve("0.0.0.0:0"), new.serve("0.0.0.0:0"));
    assert_eq!(old.reaches(at(&new_ips[0], on_new.port())), "10.244.1.2");
    assert_eq!(new.reaches(at(&old_ips[0], on_old.port())), "10.244.9.2");
}
