//! A node with a pod network and enforced policies. Pods answer at two ports, over TCP, and over UDP and SCTP where they
//! are told to.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, value};
use corten_client::{Change, Object};
use corten_net::namespace::Namespace;
use corten_net::route::{self, Route, Routing, Veth};
use corten_net::{Cidr, Options, PodNetwork};
use corten_policy::{Enforcer, Inputs};
use corten_sys::namespaces::new_network;
use corten_testkit_sctp as sctp;

/// Long enough to believe that nothing arrives: longer than it takes a refused first packet to be sent again.
const DOUBT: Duration = Duration::from_millis(1500);
pub(crate) const PORTS: [u16; 2] = [80, 81];
pub(crate) const OUTSIDE: &str = "192.0.2.2";

pub(crate) struct Pod {
    namespace: Namespace,
    pub(crate) object: Value,
    pub(crate) address: IpAddr,
}

impl Pod {
    pub(crate) fn name(&self) -> (&str, &str) {
        let text = |key| self.object.str_at(&["metadata", key]).unwrap();
        (text("namespace"), text("name"))
    }

    /// Whether somebody at an address and a port answers.
    pub(crate) fn reaches(&self, address: IpAddr, port: u16) -> bool {
        reaches(&self.namespace, address, port)
    }

    /// Whether somebody answers who is asked in a protocol.
    pub(crate) fn reaches_over(&self, protocol: &str, address: IpAddr, port: u16) -> bool {
        let to = SocketAddr::new(address, port);
        match protocol {
            "UDP" => {
                let asked = self.namespace.run(|| {
                    let socket = UdpSocket::bind("0.0.0.0:0")?;
                    socket.set_read_timeout(Some(DOUBT))?;
                    socket.send_to(b"?", to)?;
                    socket.recv_from(&mut [0])
                });
                arrived(to, asked)
            }
            "SCTP" => arrived(to, self.namespace.run(|| sctp::Client::new(to)?.ask(DOUBT))),
            _ => self.reaches(address, port),
        }
    }

    /// Answers datagrams and who asks for associations at a port, too.
    pub(crate) fn serve_all(&self, port: u16) {
        let at = SocketAddr::new(self.address, port);
        let socket = self.namespace.run(|| UdpSocket::bind(at)).unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0]) {
                let _ = socket.send_to(b"!", from);
            }
        });
        let server = self.namespace.run(|| sctp::Server::bind(at)).unwrap();
        std::thread::spawn(move || server.serve("here"));
    }

    /// Sends what is for an address over the link itself, past the gateway: what a pod with NET_ADMIN can do, and with
    /// frames of its own making one with NET_RAW.
    pub(crate) fn leave_the_gateway_out(&self, address: IpAddr) {
        let mut routing = Routing::open(&self.namespace).unwrap();
        let link = routing.link("eth0").unwrap().unwrap().index;
        let destination = Cidr::single(address);
        routing.set_route(&Route { destination, gateway: None, link, source: None }).unwrap();
    }

    /// Takes another's address.
    pub(crate) fn call_itself(&self, address: IpAddr) {
        super::world::address(&self.namespace, "eth0", &format!("{address}/32"));
    }

    /// Whether a datagram from an address arrives at another pod. A second one tells when it would have arrived.
    pub(crate) fn is_heard_as(&self, own: IpAddr, other: &Pod) -> bool {
        let heard = other.namespace.run(|| UdpSocket::bind((other.address, 0))).unwrap();
        heard.set_read_timeout(Some(DOUBT)).unwrap();
        let sender = self.namespace.run(|| UdpSocket::bind((own, 0))).unwrap();
        sender.send_to(b"?", heard.local_addr().unwrap()).unwrap();
        arrived(heard.local_addr().unwrap(), heard.recv_from(&mut [0]))
    }

    /// A connection that stays.
    pub(crate) fn connect(&self, address: IpAddr, port: u16) -> TcpStream {
        self.namespace.run(|| TcpStream::connect_timeout(&SocketAddr::new(address, port), DOUBT)).unwrap()
    }
}

fn reaches(from: &Namespace, address: IpAddr, port: u16) -> bool {
    let asked = from.run(|| {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), DOUBT)?;
        stream.set_read_timeout(Some(DOUBT))?;
        stream.write_all(b"?")?;
        stream.read_exact(&mut [0])
    });
    arrived(SocketAddr::new(address, port), asked)
}

/// Whether there was an answer; that nobody is there would be another one.
fn arrived<T>(to: SocketAddr, asked: io::Result<T>) -> bool {
    match asked.map_err(|error| error.kind()) {
        Ok(_) => true,
        Err(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => false,
        Err(kind) => panic!("{to}: {kind:?}"),
    }
}

/// Answers every byte with the same.
fn serve(namespace: &Namespace, address: IpAddr, port: u16) {
    let listener = namespace.run(|| TcpListener::bind((address, port))).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        }
    });
}

pub(crate) struct World {
    _node: Namespace,
    outside: Namespace,
    network: PodNetwork,
    pub(crate) inputs: Inputs,
    enforcer: Enforcer,
    pub(crate) pods: BTreeMap<&'static str, Pod>,
    _folder: tempfile::TempDir,
}

fn place() -> Namespace {
    let place: Namespace = new_network().expect("a network namespace (this needs root)").into();
    up(&place, "lo");
    place
}

fn path(namespace: &Namespace) -> PathBuf {
    format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd()).into()
}

fn up(namespace: &Namespace, link: &str) {
    let mut routing = Routing::open(namespace).unwrap();
    let index = routing.link(link).unwrap().unwrap().index;
    routing.change_link(index, route::Change { up: true, ..route::Change::default() }).unwrap();
}

fn address(namespace: &Namespace, link: &str, address: &str) {
    let mut routing = Routing::open(namespace).unwrap();
    let index = routing.link(link).unwrap().unwrap().index;
    routing.add_address(index, address.parse().unwrap()).unwrap();
}

impl World {
    pub(crate) fn new() -> World {
        let (node, outside) = (place(), place());
        let veth = Veth {
            name: "uplink",
            mtu: 1500,
            peer: "node",
            peer_namespace: &outside,
            peer_hardware: [2, 0, 0, 0, 0, 2],
        };
        Routing::open(&node).unwrap().add_veth(&veth).unwrap();
        for (place, link, ip) in [(&node, "uplink", "192.0.2.1/24"), (&outside, "node", "192.0.2.2/24")] {
            address(place, link, ip);
            up(place, link);
        }
        let mut routing = Routing::open(&outside).unwrap();
        let link = routing.link("node").unwrap().unwrap().index;
        let (destination, gateway) = ("10.244.1.0/24".parse().unwrap(), "192.0.2.1".parse().ok());
        routing.set_route(&Route { destination, gateway, link, source: None }).unwrap();
        PORTS.iter().for_each(|port| serve(&outside, OUTSIDE.parse().unwrap(), *port));
        let folder = tempfile::tempdir().unwrap();
        let (pods, bridge) = (folder.path().join("pods"), "pods0".to_owned());
        let options = Options { folder: pods, bridge, mtu: None, across: None };
        let network = PodNetwork::open(options, Namespace::open(path(&node)).unwrap()).unwrap();
        network.set_pod_cidrs(&["10.244.1.0/24".parse().unwrap()]).unwrap();
        let enforcer = Enforcer::open("here", &node).unwrap();
        let (inputs, pods) = (Inputs::default(), BTreeMap::new());
        World { _node: node, outside, network, inputs, enforcer, pods, _folder: folder }
    }

    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        self.inputs.namespace(&changed(&value!({"metadata": {"name": (name), "labels": (labels)}})));
    }

    /// A pod of this node that answers.
    pub(crate) fn pod(&mut self, namespace: &str, name: &'static str, labels: Value) {
        let place: Namespace = new_network().unwrap().into();
        let address = self.network.attach(name, &path(&place), &[]).unwrap()[0];
        PORTS.iter().for_each(|port| serve(&place, address, *port));
        let object = value!({
            "metadata": {"namespace": (namespace), "name": (name), "labels": (labels)},
            "spec": {"nodeName": "here", "containers": [{"ports": [{"name": "web", "containerPort": 80}]}]},
            "status": {"phase": "Running", "podIPs": [{"ip": (address.to_string())}]},
        });
        self.inputs.pod(&changed(&object));
        self.pods.insert(name, Pod { namespace: place, object, address });
    }

    pub(crate) fn policy(&mut self, namespace: &str, name: &str, spec: Value) {
        let object = value!({"metadata": {"namespace": (namespace), "name": (name)}, "spec": (spec)});
        self.inputs.policy(&changed(&object));
    }

    /// Turns the kernel's bridge netfilter on or off, where there is one.
    pub(crate) fn set_bridge_netfilter(&self, on: bool) {
        let set = |rules: &str| {
            let path = format!("/proc/sys/net/bridge/bridge-nf-call-{rules}tables");
            match std::fs::write(path, if on { "1" } else { "0" }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                written => written,
            }
        };
        self._node.run(|| ["arp", "ip", "ip6"].iter().try_for_each(|rules| set(rules))).unwrap();
    }

    pub(crate) fn enforce(&mut self) {
        let wanted = self.enforcer.wanted(&self.inputs);
        self.enforcer.enforce(wanted).unwrap();
    }

    /// What a new process finds after the old one was killed.
    pub(crate) fn restart(&mut self) {
        self.enforcer = Enforcer::open("here", &self._node).unwrap();
    }

    pub(crate) fn is_reached_from_outside(&self, pod: &str, port: u16) -> bool {
        reaches(&self.outside, self.pods[pod].address, port)
    }
}

pub(crate) fn changed(object: &Value) -> Change {
    Change { old: None, new: Some(Arc::new(Object::of(object))) }
}

pub(crate) fn gone(object: &Value) -> Change {
    Change { old: Some(Arc::new(Object::of(object))), new: None }
}
