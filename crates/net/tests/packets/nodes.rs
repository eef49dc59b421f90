//! Pods of different nodes, which share nothing but a network between the nodes.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use corten_net::addresses::hardware;
use corten_net::peers::{Between, Peer};
use corten_net::route::{Change, Route, Veth};
use corten_net::{Across, Cidr, PodNetwork};

use crate::world::{Netns, at, open_network};

/// The network between the nodes. It has no routes to pods, and is outside of the cluster to them.
struct Fabric {
    place: Netns,
    bridge: u32,
}

const OUTSIDE: &str = "192.0.2.254";

impl Fabric {
    fn new() -> Fabric {
        let place = Netns::new();
        let mut routing = place.routing();
        routing.add_bridge("fabric", 1400, [2, 0, 0, 0, 0, 254]).unwrap();
        let bridge = routing.link("fabric").unwrap().unwrap().index;
        place.address("fabric", &format!("{OUTSIDE}/24"));
        place.up("fabric");
        Fabric { place, bridge }
    }

    /// Joins node `n`, 192.0.2.n, whose pods are in 10.244.n.0/24 and fd00:n::/64.
    fn node(&self, n: u8, between: Between) -> Node {
        let place = Netns::new();
        let veth = Veth {
            name: &format!("node{n}"),
            mtu: 1400,
            peer: "uplink",
            peer_namespace: &place.namespace(),
            peer_hardware: [2, 0, 0, 0, 0, n],
        };
        let mut routing = self.place.routing();
        routing.add_veth(&veth).unwrap();
        let port = routing.link(veth.name).unwrap().unwrap().index;
        let change = Change { up: true, master: Some(self.bridge), ..Change::default() };
        routing.change_link(port, change).unwrap();
        place.address("uplink", &format!("192.0.2.{n}/24"));
        place.up("uplink");
        let link = place.routing().link("uplink").unwrap().unwrap().index;
        let destination = "0.0.0.0/0".parse().unwrap();
        let out = Route { destination, gateway: OUTSIDE.parse().ok(), link, source: None };
        place.routing().set_route(&out).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let address = IpAddr::from([192, 0, 2, n]);
        let network = open_network(&place, &folder, Some(Across { between, node: address }));
        let cidrs = [format!("10.244.{n}.0/24"), format!("fd00:{n}::/64")];
        let pod_cidrs: Vec<Cidr> = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        network.set_pod_cidrs(&pod_cidrs).unwrap();
        Node { place, network, peer: Peer { address, pod_cidrs }, folder }
    }
}

struct Node {
    place: Netns,
    network: PodNetwork,
    /// The node as other nodes see it.
    peer: Peer,
    folder: tempfile::TempDir,
}

impl Node {
    fn pod(&self, sandbox: &str) -> (Netns, Vec<IpAddr>) {
        let pod = Netns::new();
        let addresses = self.network.attach(sandbox, &pod.path(), &[]).unwrap();
        (pod, addresses)
    }

    fn set_peers(&self, others: &[&Node]) {
        let peers: Vec<Peer> = others.iter().map(|node| node.peer.clone()).collect();
        self.network.set_peers(&peers).unwrap();
    }
}

#[test]
fn pods_reach_pods_of_other_nodes_through_the_tunnel() {
    let fabric = Fabric::new();
    let nodes: Vec<Node> = (1..=3).map(|n| fabric.node(n, Between::Vxlan)).collect();
    for node in &nodes {
        let others: Vec<&Node> = nodes.iter().filter(|other| other.peer != node.peer).collect();
        node.set_peers(&others);
    }
    let pods: Vec<(Netns, Vec<IpAddr>)> = nodes.iter().map(|node| node.pod("a")).collect();
    for (to, to_ips) in &pods {
        let (on4, on6) = (to.serve("0.0.0.0:0"), to.serve("[::]:0"));
        for (from, from_ips) in &pods {
            assert_eq!(from.reaches(at(&to_ips[0], on4.port())), from_ips[0].to_string());
            assert_eq!(from.reaches(at(&to_ips[1], on6.port())), from_ips[1].to_string());
        }
        let seen = nodes[0].place.reaches(at(&to_ips[0], on4.port()));
        assert_eq!(seen, "10.244.1.1", "a node is known to pods by its address among its own");
    }
    let outside = fabric.place.serve("0.0.0.0:0");
    assert_eq!(pods[1].0.reaches(at(OUTSIDE, outside.port())), "192.0.2.2");
    assert_eq!(pods[1].0.routing().link("eth0").unwrap().unwrap().mtu, 1350, "the tunnel takes its part");
}

#[test]
fn pods_reach_pods_of_neighbouring_nodes_directly() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.node(1, Between::Direct), fabric.node(2, Between::Direct));
    one.set_peers(&[&two]);
    two.set_peers(&[&one]);
    let ((a, a_ips), (b, b_ips)) = (one.pod("a"), two.pod("b"));
    let on_b = b.serve("0.0.0.0:0");
    assert_eq!(a.reaches(at(&b_ips[0], on_b.port())), a_ips[0].to_string());
    assert_eq!(a.routing().link("eth0").unwrap().unwrap().mtu, 1400);
}

#[test]
fn routes_to_a_removed_node_are_removed() {
    for between in [Between::Vxlan, Between::Direct] {
        let fabric = Fabric::new();
        let (one, two) = (fabric.node(1, between), fabric.node(2, between));
        let before = one.place.routing().own_routes().unwrap();
        one.set_peers(&[&two]);
        two.set_peers(&[&one]);
        assert!(one.place.routing().own_routes().unwrap().len() > before.len());
        let ((a, _), (b, b_ips)) = (one.pod("a"), two.pod("b"));
        let on_b = b.serve("0.0.0.0:0");
        a.reaches(at(&b_ips[0], on_b.port()));
        one.set_peers(&[]);
        assert_eq!(one.place.routing().own_routes().unwrap(), before);
        a.does_not_reach(at(&b_ips[0], on_b.port()));
        one.set_peers(&[&two]);
        a.reaches(at(&b_ips[0], on_b.port()));
    }
}

#[test]
fn a_new_process_keeps_routes_until_the_peers_are_known() {
    for between in [Between::Vxlan, Between::Direct] {
        let fabric = Fabric::new();
        let (mut one, two) = (fabric.node(1, between), fabric.node(2, between));
        one.set_peers(&[&two]);
        two.set_peers(&[&one]);
        let ((a, _), (b, b_ips)) = (one.pod("a"), two.pod("b"));
        let on_b = b.serve("0.0.0.0:0");
        let routes = one.place.routing().own_routes().unwrap();
        one.network = open_network(&one.place, &one.folder, Some(Across { between, node: one.peer.address }));
        one.network.set_pod_cidrs(&one.peer.pod_cidrs).unwrap();
        assert_eq!(one.place.routing().own_routes().unwrap(), routes);
        a.reaches(at(&b_ips[0], on_b.port()));
        one.set_peers(&[]);
        a.does_not_reach(at(&b_ips[0], on_b.port()));
    }
}

#[test]
fn setting_the_same_peers_twice_changes_nothing() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.node(1, Between::Vxlan), fabric.node(2, Between::Vxlan));
    one.set_peers(&[&two]);
    let tunnel = || one.place.routing().link("corten-vxlan").unwrap().unwrap();
    let (before, routes) = (tunnel(), one.place.routing().own_routes().unwrap());
    one.set_peers(&[&two]);
    assert_eq!(tunnel(), before);
    assert_eq!(one.place.routing().own_routes().unwrap(), routes);
}

/// A frame for a pod of node 2, as if another pod had sent it, in a packet for the node's end of the tunnel.
fn forged(from: IpAddr, to: SocketAddr, text: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to_ip)) = (from, to.ip()) else { panic!("of IPv4") };
    let length = |part: usize| u16::try_from(part).unwrap().to_be_bytes();
    let mut ip = vec![0x45, 0];
    ip.extend(length(20 + 8 + text.len()));
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to_ip.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![8, 0, 0, 0, 0, 0, 1, 0];
    packet.extend(hardware([192, 0, 2, 2].into()));
    packet.extend(hardware([192, 0, 2, 1].into()));
    packet.extend([8, 0]);
    packet.extend(ip);
    packet.extend(9u16.to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(length(8 + text.len()));
    packet.extend([0, 0]);
    packet.extend(text);
    packet
}

#[test]
fn only_nodes_send_into_the_tunnel() {
    let fabric = Fabric::new();
    let nodes: Vec<Node> = (1..=3).map(|n| fabric.node(n, Between::Vxlan)).collect();
    for node in &nodes {
        node.set_peers(&nodes.iter().filter(|other| other.peer != node.peer).collect::<Vec<_>>());
    }
    let ((a, _), (b, b_ips), (c, _)) = (nodes[0].pod("a"), nodes[1].pod("b"), nodes[2].pod("c"));
    let heard = b.run(|| UdpSocket::bind((b_ips[0], 0))).unwrap();
    let to = heard.local_addr().unwrap();
    // The pod whose address is spoofed, of another node.
    let victim = IpAddr::from([10, 244, 3, 2]);
    let send = |place: &Netns, text: &[u8]| {
        let socket = place.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        socket.send_to(&forged(victim, to, text), "192.0.2.2:8472").unwrap();
    };
    send(&a, b"from a pod of another node");
    send(&b, b"from a pod of this node");
    send(&fabric.place, b"from a machine that is no node");
    let own = c.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    own.send_to(b"through the tunnel", to).unwrap();
    heard.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = [0; 64];
    let (length, from) = heard.recv_from(&mut buffer).unwrap();
    assert_eq!(String::from_utf8_lossy(&buffer[..length]), "through the tunnel");
    assert_eq!(from.ip(), victim, "the real one");
    heard.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let more = heard.recv_from(&mut buffer);
    assert!(
        more.is_err(),
        "{:?}",
        more.map(|(length, _)| String::from_utf8_lossy(&buffer[..length]).into_owned())
    );
}
