//! Host ports.

use corten_net::{Error, Protocol};

use crate::world::{NODE, NODE6, Netns, OUTSIDE, OUTSIDE6, World, at, port};

const CIDRS: [&str; 2] = ["10.244.1.0/24", "fd00:244:1::/64"];

#[test]
fn a_host_port_reaches_the_pod_from_everywhere() {
    let world = World::new(&CIDRS);
    let (web, _) = world.pod("web", &[port(Protocol::Tcp, None, 8080, 80)]);
    let (other, _) = world.pod("other", &[]);
    web.serve("0.0.0.0:80");
    assert_eq!(world.outside.reaches(at(NODE, 8080)), OUTSIDE, "the source is kept");
    assert_eq!(other.reaches(at(NODE, 8080)), "10.244.1.3", "the source is kept");
    assert_eq!(web.reaches(at(NODE, 8080)), "10.244.1.1", "to itself");
    assert_eq!(world.node.reaches(at(NODE, 8080)), NODE);
    assert_eq!(world.node.reaches(at("127.0.0.1", 8080)), "10.244.1.1", "over loopback");
    world.outside.does_not_reach(at(NODE, 80));
}

#[test]
fn a_host_port_reaches_the_pod_over_ipv6() {
    let world = World::new(&CIDRS);
    let (web, _) = world.pod("web", &[port(Protocol::Tcp, None, 8080, 80)]);
    let (other, _) = world.pod("other", &[]);
    web.serve("[::]:80");
    assert_eq!(world.outside.reaches(at(NODE6, 8080)), OUTSIDE6);
    assert_eq!(other.reaches(at(NODE6, 8080)), "fd00:244:1::3");
    assert_eq!(web.reaches(at(NODE6, 8080)), "fd00:244:1::1");
}

#[test]
fn host_ports_work_over_udp() {
    let world = World::new(&CIDRS);
    let (dns, _) = world.pod("dns", &[port(Protocol::Udp, None, 5353, 53)]);
    dns.serve_udp("0.0.0.0:53");
    assert_eq!(world.outside.reaches_udp(at(NODE, 5353)), OUTSIDE);
    world.outside.does_not_reach(at(NODE, 5353));
}

#[test]
fn host_ports_work_over_sctp() {
    let world = World::new(&CIDRS);
    let (signal, _) = world.pod("signal", &[port(Protocol::Sctp, None, 3868, 38)]);
    signal.serve_sctp("0.0.0.0:38", "seen");
    assert_eq!(world.outside.reaches_sctp(at(NODE, 3868)), format!("seen {OUTSIDE}"));
    signal.serve_sctp("[::]:38", "seen");
    assert_eq!(world.outside.reaches_sctp(at(NODE6, 3868)), format!("seen {OUTSIDE6}"));
    world.outside.does_not_reach(at(NODE, 3868));
}

#[test]
fn a_host_port_may_have_a_host_ip() {
    let world = World::new(&CIDRS);
    let on_node = port(Protocol::Tcp, Some(NODE), 8080, 80);
    let on_loopback = port(Protocol::Tcp, Some("127.0.0.1"), 8080, 80);
    let (a, _) = world.pod("a", &[on_node]);
    let (b, _) = world.pod("b", &[on_loopback]);
    a.serve("0.0.0.0:80");
    b.serve("10.244.1.3:80");
    assert_eq!(world.outside.reaches(at(NODE, 8080)), OUTSIDE);
    assert_eq!(world.node.reaches(at("127.0.0.1", 8080)), "10.244.1.1");
    world.network.detach("b").unwrap();
    world.node.does_not_reach(at("127.0.0.1", 8080));
    assert_eq!(world.outside.reaches(at(NODE, 8080)), OUTSIDE);
}

#[test]
fn two_pods_never_share_a_host_port() {
    let world = World::new(&CIDRS);
    let (_a, _) = world.pod("a", &[port(Protocol::Tcp, None, 8080, 80)]);
    let pod = Netns::new();
    let attach = |ports| world.network.attach("b", &pod.path(), &[ports]);
    let refused = attach(port(Protocol::Tcp, Some(NODE), 8080, 81));
    assert!(matches!(&refused, Err(Error::HostPortTaken { owner, .. }) if owner == "a"), "{refused:?}");
    attach(port(Protocol::Udp, None, 8080, 81)).unwrap();
    world.network.detach("a").unwrap();
    attach(port(Protocol::Tcp, Some(NODE), 8080, 81)).unwrap();
}

#[test]
fn a_host_port_is_closed_with_its_pod() {
    let world = World::new(&CIDRS);
    let (web, _) = world.pod("web", &[port(Protocol::Tcp, None, 8080, 80)]);
    web.serve("0.0.0.0:80");
    world.outside.reaches(at(NODE, 8080));
    world.network.detach("web").unwrap();
    world.outside.does_not_reach(at(NODE, 8080));
}
