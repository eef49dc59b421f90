//! Repeated, interrupted and lost operations: no address is allocated twice and nothing is left behind.

use std::fs;

use corten_net::Protocol;

use crate::world::{NODE, Netns, OUTSIDE, World, at, port};

const CIDRS: [&str; 1] = ["10.244.1.0/24"];

#[test]
fn attaching_twice_changes_nothing() {
    let world = World::new(&CIDRS);
    let (a, a_ips) = world.pod("a", &[]);
    let (b, b_ips) = world.pod("b", &[]);
    let on_b = b.serve("0.0.0.0:0");
    let before = world.bridge_ports();
    assert_eq!(world.attach("a", &a, &[]), a_ips);
    assert_eq!(world.bridge_ports(), before);
    assert_eq!(a.reaches(at(&b_ips[0], on_b.port())), a_ips[0].to_string());
}

#[test]
fn detaching_twice_or_an_unknown_sandbox_is_no_error() {
    let world = World::new(&CIDRS);
    let (pod, _) = world.pod("a", &[]);
    world.network.detach("a").unwrap();
    world.network.detach("a").unwrap();
    world.network.detach("unknown").unwrap();
    assert!(world.bridge_ports().is_empty());
    assert!(pod.routing().link("eth0").unwrap().is_none());
    assert_eq!(fs::read_dir(world.records()).unwrap().count(), 0);
}

#[test]
fn sandbox_ids_with_paths_are_refused() {
    let world = World::new(&CIDRS);
    let pod = Netns::new();
    for name in ["", "../a", "a/b", ".", "a\0b"] {
        assert!(world.network.attach(name, &pod.path(), &[]).is_err(), "{name:?}");
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let world = World::new(&CIDRS);
    let (web, web_ips) = world.pod("web", &[port(Protocol::Tcp, None, 8080, 80)]);
    web.serve("0.0.0.0:80");
    let world = world.restarted(&CIDRS);
    assert_eq!(world.outside.reaches(at(NODE, 8080)), OUTSIDE);
    let (other, other_ips) = world.pod("other", &[]);
    assert_ne!(other_ips, web_ips);
    assert_eq!(other.reaches(at(&web_ips[0], 80)), other_ips[0].to_string());
    let third = Netns::new();
    let taken = world.network.attach("third", &third.path(), &[port(Protocol::Tcp, None, 8080, 80)]);
    assert!(taken.is_err(), "{taken:?}");
    world.network.detach("web").unwrap();
    world.outside.does_not_reach(at(NODE, 8080));
}

#[test]
fn rules_and_pods_work_without_a_process() {
    let world = World::new(&CIDRS);
    let (web, _) = world.pod("web", &[port(Protocol::Tcp, None, 8080, 80)]);
    web.serve("0.0.0.0:80");
    let world = world.restarted(&[]);
    assert!(world.network.not_ready().is_some());
    assert_eq!(world.outside.reaches(at(NODE, 8080)), OUTSIDE);
}

#[test]
fn records_from_before_a_reboot_are_released() {
    let world = World::new(&["10.244.1.0/29"]);
    let five = |world: &World, name: &str| -> Vec<_> {
        (0..5)
            .map(|n| world.pod(&format!("{name}-{n}"), &[port(Protocol::Tcp, None, 8000 + n, 80)]))
            .collect()
    };
    let _old = five(&world, "old");
    let mut routing = world.node.routing();
    for name in world.bridge_ports() {
        let index = routing.link(&name).unwrap().unwrap().index;
        routing.delete_link(index).unwrap();
    }
    let world = world.restarted(&["10.244.1.0/29"]);
    five(&world, "new");
}

#[test]
fn interfaces_without_a_record_are_removed() {
    let world = World::new(&CIDRS);
    let (_pod, _) = world.pod("a", &[]);
    let (_kept, _) = world.pod("kept", &[]);
    fs::remove_file(world.records().join("a.json")).unwrap();
    let world = world.restarted(&CIDRS);
    assert_eq!(world.bridge_ports().len(), 1);
}

#[test]
fn truncated_records_are_removed() {
    let world = World::new(&CIDRS);
    fs::write(world.records().join("a.new"), "{").unwrap();
    fs::write(world.records().join("b.json"), r#"{"addresses":["10.24"#).unwrap();
    let world = world.restarted(&CIDRS);
    assert_eq!(fs::read_dir(world.records()).unwrap().count(), 0);
    let (_pod, ips) = world.pod("a", &[]);
    assert_eq!(ips[0].to_string(), "10.244.1.2");
}

#[test]
fn an_interrupted_attempt_continues_in_a_new_namespace() {
    let world = World::new(&CIDRS);
    let (first, ips) = world.pod("a", &[]);
    let second = Netns::new();
    assert_eq!(world.attach("a", &second, &[]), ips, "the address is the sandbox's");
    assert!(first.routing().link("eth0").unwrap().is_none());
    let on_second = second.serve("0.0.0.0:0");
    world.node.reaches(at(&ips[0], on_second.port()));
}

#[test]
fn a_removed_bridge_is_created_again() {
    let world = World::new(&CIDRS);
    let mut routing = world.node.routing();
    let bridge = routing.link("pods0").unwrap().unwrap().index;
    routing.delete_link(bridge).unwrap();
    let (pod, _) = world.pod("a", &[]);
    let outside = world.outside.serve("0.0.0.0:0");
    assert_eq!(pod.reaches(at(OUTSIDE, outside.port())), NODE);
}
