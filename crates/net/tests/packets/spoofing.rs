//! Attacks of pods that control their own network namespace: they spoof and take over addresses of other pods, and bypass the
//! node's rules.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use corten_net::Cidr;
use corten_net::addresses::hardware;
use corten_net::route::Route;
use socket2::{Domain, Protocol, Socket, Type};

use crate::world::{DEADLINE, Netns, QUIET, World, at};

const BOTH: [&str; 2] = ["10.244.1.0/24", "fd00:244:1::/64"];

/// With and without the kernel's bridge netfilter, where there is one.
fn worlds() -> Vec<World> {
    let world = |bridge_netfilter| {
        let world = World::new(&BOTH);
        world.node.set_bridge_netfilter(bridge_netfilter);
        world
    };
    vec![world(false), world(true)]
}

fn eth0(pod: &Netns) -> u32 {
    pod.routing().link("eth0").unwrap().unwrap().index
}

/// A socket of an address that the pod adds to its interface.
fn from(pod: &Netns, address: IpAddr) -> UdpSocket {
    pod.routing()
        .add_address(eth0(pod), Cidr::new(address, if address.is_ipv4() { 32 } else { 128 }).unwrap())
        .unwrap();
    bind(pod, SocketAddr::new(address, 0))
}

/// Binds a socket. A new address of an interface may not be usable at once.
fn bind(pod: &Netns, address: SocketAddr) -> UdpSocket {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match pod.run(|| UdpSocket::bind(address)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && Instant::now() < deadline => {
                std::thread::yield_now();
            }
            bound => return bound.unwrap(),
        }
    }
}

/// The next datagram that arrives, if any does.
fn received(socket: &UdpSocket, timeout: Duration) -> Option<String> {
    socket.set_read_timeout(Some(timeout)).unwrap();
    let mut buffer = [0; 64];
    match socket.recv_from(&mut buffer) {
        Ok((length, _)) => Some(String::from_utf8_lossy(&buffer[..length]).into_owned()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

fn link_local(address: IpAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = hardware(address);
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[test]
fn a_pod_cannot_spoof_the_address_of_another_pod_or_machine() {
    for world in worlds() {
        let ((a, a_ips), (_b, b_ips), (c, c_ips)) =
            (world.pod("a", &[]), world.pod("b", &[]), world.pod("c", &[]));
        for family in [0, 1] {
            let heard = bind(&c, SocketAddr::new(c_ips[family], 0));
            let to = heard.local_addr().unwrap();
            let foreign: IpAddr = ["198.51.100.7", "2001:db8::7"][family].parse().unwrap();
            from(&a, b_ips[family]).send_to(b"as another pod", to).unwrap();
            from(&a, foreign).send_to(b"as another machine", to).unwrap();
            bind(&a, SocketAddr::new(a_ips[family], 0)).send_to(b"as itself", to).unwrap();
            assert_eq!(received(&heard, DEADLINE).as_deref(), Some("as itself"));
            assert_eq!(received(&heard, QUIET), None);
        }
    }
}

#[test]
fn a_pod_cannot_take_over_an_address_by_spoofed_arp_requests() {
    for world in worlds() {
        let ((a, _), (b, b_ips)) = (world.pod("a", &[]), world.pod("b", &[]));
        for (victim, gateway) in b_ips.iter().zip(["10.244.1.1", "fd00:244:1::1"]) {
            let any = if victim.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let on_b = at(victim, b.serve(any).port());
            world.node.reaches(on_b);
            // The pod has to resolve its gateway first, and does so with the victim's address.
            from(&a, *victim).send_to(b"?", at(gateway, 9)).unwrap();
            let on_a = at(victim, a.serve(any).port());
            world.node.does_not_reach(on_a);
            world.node.reaches(on_b);
        }
    }
}

#[test]
fn a_pod_cannot_advertise_the_address_of_another_pod() {
    for world in worlds() {
        let ((a, a_ips), (b, b_ips)) = (world.pod("a", &[]), world.pod("b", &[]));
        let on_b = at(&b_ips[1], b.serve("[::]:0").port());
        world.node.reaches(on_b);
        bind(&a, SocketAddr::new(a_ips[1], 0)).send_to(b"?", at("fd00:244:1::1", 9)).unwrap();
        advertise(&a, b_ips[1], hardware(a_ips[0]));
        a.routing().add_address(eth0(&a), Cidr::single(b_ips[1])).unwrap();
        let on_a = at(&b_ips[1], a.serve("[::]:0").port());
        world.node.does_not_reach(on_a);
        world.node.reaches(on_b);
    }
}

/// Sends the gateway a neighbour advertisement.
fn advertise(pod: &Netns, address: IpAddr, hardware: [u8; 6]) {
    let IpAddr::V6(address) = address else { panic!("{address} has no neighbour discovery") };
    let (solicited_override, target_hardware) = ([0x60, 0, 0, 0], [2, 1]);
    let mut packet = vec![136, 0, 0, 0];
    packet.extend(solicited_override);
    packet.extend(address.octets());
    packet.extend(target_hardware);
    packet.extend(hardware);
    let socket = pod.run(|| Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))).unwrap();
    socket.set_unicast_hops_v6(255).unwrap();
    let gateway: SocketAddr = at("fd00:244:1::1", 0);
    socket.send_to(&packet, &gateway.into()).unwrap();
}

#[test]
fn no_frame_is_bridged_from_pod_to_pod() {
    for world in worlds() {
        let ((a, a_ips), (b, b_ips)) = (world.pod("a", &[]), world.pod("b", &[]));
        // Over link-local addresses, and to all nodes of the link.
        let (own, others) = (link_local(a_ips[0]), link_local(b_ips[0]));
        let scoped =
            |pod: &Netns, address, port| SocketAddr::V6(SocketAddrV6::new(address, port, 0, eth0(pod)));
        let heard = bind(&b, scoped(&b, others, 0));
        let port = heard.local_addr().unwrap().port();
        let sender = bind(&a, scoped(&a, own, 0));
        sender.send_to(b"over the link", scoped(&a, others, port)).unwrap();
        assert_eq!(received(&heard, QUIET), None);
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let heard = bind(&b, "[::]:0".parse().unwrap());
        let port = heard.local_addr().unwrap().port();
        sender.send_to(b"to all", scoped(&a, group, port)).unwrap();
        assert_eq!(received(&heard, QUIET), None);
        // To the neighbour's own address, on the link instead of through the gateway.
        for (to, own) in b_ips.iter().zip(&a_ips) {
            let heard = bind(&b, SocketAddr::new(*to, 0));
            let sender = bind(&a, SocketAddr::new(*own, 0));
            let direct =
                Route { destination: Cidr::single(*to), gateway: None, link: eth0(&a), source: None };
            a.routing().set_route(&direct).unwrap();
            sender.send_to(b"directly", heard.local_addr().unwrap()).unwrap();
            assert_eq!(received(&heard, QUIET), None);
            a.routing().delete_route(&direct).unwrap();
            sender.send_to(b"through the node", heard.local_addr().unwrap()).unwrap();
            assert_eq!(received(&heard, DEADLINE).as_deref(), Some("through the node"));
        }
    }
}

#[test]
fn a_new_process_guards_existing_pods() {
    let world = World::new(&BOTH);
    let ((a, a_ips), (_b, b_ips), (c, c_ips)) =
        (world.pod("a", &[]), world.pod("b", &[]), world.pod("c", &[]));
    let world = world.restarted(&BOTH);
    let heard = bind(&c, SocketAddr::new(c_ips[0], 0));
    let to = heard.local_addr().unwrap();
    from(&a, b_ips[0]).send_to(b"as another pod", to).unwrap();
    bind(&a, SocketAddr::new(a_ips[0], 0)).send_to(b"as itself", to).unwrap();
    assert_eq!(received(&heard, DEADLINE).as_deref(), Some("as itself"));
    world.network.detach("a").unwrap();
    let (d, d_ips) = world.pod("d", &[]);
    bind(&d, SocketAddr::new(d_ips[0], 0)).send_to(b"a new one", to).unwrap();
    assert_eq!(received(&heard, DEADLINE).as_deref(), Some("a new one"));
}

#[test]
fn no_machine_outside_can_spoof_a_pod() {
    let world = World::new(&BOTH);
    let ((b, b_ips), (_c, c_ips)) = (world.pod("b", &[]), world.pod("c", &[]));
    let heard = bind(&b, SocketAddr::new(b_ips[0], 0));
    let to = heard.local_addr().unwrap();
    let mut routing = world.outside.routing();
    let link = routing.link("node").unwrap().unwrap().index;
    let gateway = Some(crate::world::NODE.parse().unwrap());
    routing.set_route(&Route { destination: BOTH[0].parse().unwrap(), gateway, link, source: None }).unwrap();
    routing.add_address(link, Cidr::single(c_ips[0])).unwrap();
    let send = |address: SocketAddr, text: &str| {
        let socket = world.outside.run(|| UdpSocket::bind(address)).unwrap();
        socket.send_to(text.as_bytes(), to).unwrap();
    };
    send(SocketAddr::new(c_ips[0], 0), "as a pod");
    send(at(crate::world::OUTSIDE, 0), "as itself");
    assert_eq!(received(&heard, DEADLINE).as_deref(), Some("as itself"));
}
