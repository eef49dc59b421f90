//! A node, the world outside it, and pods: each a network namespace that ends with its last descriptor.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

use corten_net::namespace::Namespace;
use corten_net::route::{Change, Route, Routing, Veth};
use corten_net::{Across, Cidr, HostPort, Options, PodNetwork, Protocol};
use corten_sys::namespaces::new_network;
use corten_testkit_sctp as sctp;

/// Long enough for anything that arrives at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough to believe that nothing arrives.
const DOUBT: Duration = Duration::from_millis(400);

pub(crate) const NODE: &str = "192.0.2.1";
pub(crate) const OUTSIDE: &str = "192.0.2.2";
pub(crate) const NODE6: &str = "2001:db8::1";
pub(crate) const OUTSIDE6: &str = "2001:db8::2";

/// Somewhere to be: a namespace with what is in it.
pub(crate) struct Place(Namespace);

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place(new_network().expect("a network namespace (this needs root)").into());
        place.up("lo");
        place
    }

    pub(crate) fn namespace(&self) -> Namespace {
        Namespace::open(self.path()).unwrap()
    }

    /// A path that opens the namespace, for other processes too.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_fd().as_raw_fd()).into()
    }

    pub(crate) fn routing(&self) -> Routing {
        Routing::open(&self.0).unwrap()
    }

    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.run(work)
    }

    pub(crate) fn up(&self, link: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.change_link(index, Change { up: true, ..Change::default() }).unwrap();
    }

    pub(crate) fn address(&self, link: &str, address: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.add_address(index, address.parse().unwrap()).unwrap();
    }

    /// Answers each connection with who it comes from.
    pub(crate) fn serve(&self, address: &str) -> SocketAddr {
        let address: SocketAddr = address.parse().unwrap();
        let listener = self.run(|| TcpListener::bind(address)).unwrap();
        let bound = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, from)) = listener.accept() {
                let _ = write!(stream, "{}", from.ip());
            }
        });
        bound
    }

    /// Answers each datagram with who it comes from.
    pub(crate) fn serve_udp(&self, address: &str) -> SocketAddr {
        let address: SocketAddr = address.parse().unwrap();
        let socket = self.run(|| UdpSocket::bind(address)).unwrap();
        let bound = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
                let _ = socket.send_to(from.ip().to_string().as_bytes(), from);
            }
        });
        bound
    }

    /// Answers whoever asks for an association with who they are.
    pub(crate) fn serve_sctp(&self, address: &str) {
        let address: SocketAddr = address.parse().unwrap();
        let server = self.run(|| sctp::Server::bind(address)).unwrap();
        std::thread::spawn(move || server.serve("seen"));
    }

    /// Whom the server at an address sees, if anybody answers.
    fn ask(&self, address: SocketAddr, patience: Duration) -> io::Result<String> {
        let mut stream = self.run(|| TcpStream::connect_timeout(&address, patience))?;
        stream.set_read_timeout(Some(patience))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    #[track_caller]
    pub(crate) fn reaches(&self, address: SocketAddr) -> String {
        self.ask(address, PATIENCE).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    #[track_caller]
    pub(crate) fn does_not_reach(&self, address: SocketAddr) {
        let answer = self.ask(address, DOUBT);
        assert!(answer.is_err(), "{address} answered {answer:?}");
    }

    #[track_caller]
    pub(crate) fn reaches_udp(&self, address: SocketAddr) -> String {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.run(|| UdpSocket::bind(any)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"?", address).unwrap();
        let mut buffer = [0; 64];
        let (read, from) = socket.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!(from, address, "the answer comes from where the question went");
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }

    #[track_caller]
    pub(crate) fn reaches_sctp(&self, address: SocketAddr) -> String {
        let asked = self.run(|| sctp::Client::new(address)).and_then(|client| client.ask(PATIENCE));
        asked.unwrap_or_else(|error| panic!("{address}: {error}"))
    }
}

/// A node with an uplink to the world outside, and its pod network.
pub(crate) struct World {
    pub(crate) node: Place,
    pub(crate) outside: Place,
    pub(crate) network: PodNetwork,
    folder: tempfile::TempDir,
}

impl World {
    /// `cidrs` are the node's pod CIDRs.
    pub(crate) fn new(cidrs: &[&str]) -> World {
        let (node, outside) = (Place::new(), Place::new());
        let veth = Veth {
            name: "uplink",
            mtu: 1400,
            peer: "node",
            peer_namespace: &outside.namespace(),
            peer_hardware: [2, 0, 0, 0, 0, 2],
        };
        node.routing().add_veth(&veth).unwrap();
        for (place, link, v4, v6) in [(&node, "uplink", NODE, NODE6), (&outside, "node", OUTSIDE, OUTSIDE6)] {
            place.address(link, &format!("{v4}/24"));
            place.address(link, &format!("{v6}/64"));
            place.up(link);
        }
        let link = node.routing().link("uplink").unwrap().unwrap().index;
        for (destination, gateway) in [("0.0.0.0/0", OUTSIDE), ("::/0", OUTSIDE6)] {
            let destination = destination.parse().unwrap();
            let route = Route { destination, gateway: gateway.parse().ok(), link, source: None };
            node.routing().set_route(&route).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let network = open(&node, &folder, None);
        let world = World { node, outside, network, folder };
        world.set_pod_cidrs(cidrs);
        world
    }

    pub(crate) fn set_pod_cidrs(&self, cidrs: &[&str]) {
        let cidrs: Vec<Cidr> = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        self.network.set_pod_cidrs(&cidrs).unwrap();
    }

    /// What a new process finds after the old one was killed: nothing of ours does anything when it ends.
    pub(crate) fn restarted(self, cidrs: &[&str]) -> World {
        let World { node, outside, network, folder } = self;
        drop(network);
        let network = open(&node, &folder, None);
        let world = World { node, outside, network, folder };
        world.set_pod_cidrs(cidrs);
        world
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.folder.path().join("pods")
    }

    /// A connected pod and its addresses.
    pub(crate) fn pod(&self, sandbox: &str, ports: &[HostPort]) -> (Place, Vec<IpAddr>) {
        let pod = Place(new_network().unwrap().into());
        let addresses = self.attach(sandbox, &pod, ports);
        (pod, addresses)
    }

    #[track_caller]
    pub(crate) fn attach(&self, sandbox: &str, pod: &Place, ports: &[HostPort]) -> Vec<IpAddr> {
        self.network.attach(sandbox, &pod.path(), ports).unwrap()
    }

    /// The names of the bridge's ports.
    pub(crate) fn ports_of_bridge(&self) -> Vec<String> {
        let mut routing = self.node.routing();
        let bridge = routing.link("pods0").unwrap().unwrap().index;
        let links = routing.links().unwrap().into_iter();
        links.filter(|link| link.master == bridge).map(|link| link.name).collect()
    }
}

pub(crate) fn open(node: &Place, folder: &tempfile::TempDir, across: Option<Across>) -> PodNetwork {
    let options =
        Options { folder: folder.path().join("pods"), bridge: "pods0".to_owned(), mtu: None, across };
    PodNetwork::open(options, node.namespace()).unwrap()
}

pub(crate) fn port(protocol: Protocol, host_ip: Option<&str>, host_port: u16, pod_port: u16) -> HostPort {
    HostPort { protocol, host_ip: host_ip.map(|ip| ip.parse().unwrap()), host_port, pod_port }
}

pub(crate) fn at(ip: &(impl ToString + ?Sized), port: u16) -> SocketAddr {
    SocketAddr::new(ip.to_string().parse().unwrap(), port)
}
