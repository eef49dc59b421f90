//! A node with a pod network and enforced policies. Pods have TCP servers at two ports, and UDP and SCTP servers where a
//! test starts them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, value};
use corten_client::{Change, Object};
use corten_net::Cidr;
use corten_net::route::Route;
use corten_policy::{Enforcer, Inputs};
use corten_testkit_packets::{self as packets, NODE, Netns};

pub(crate) use corten_testkit_packets::OUTSIDE;

/// The wait after which a packet counts as dropped: longer than the retransmission of a first packet takes.
const QUIET: Duration = Duration::from_millis(1500);
pub(crate) const PORTS: [u16; 2] = [80, 81];

pub(crate) struct Pod {
    netns: Netns,
    pub(crate) object: Value,
    pub(crate) address: IpAddr,
}

impl Pod {
    pub(crate) fn name(&self) -> (&str, &str) {
        let text = |key| self.object.str_at(&["metadata", key]).unwrap();
        (text("namespace"), text("name"))
    }

    /// True if the TCP server at an address answers.
    pub(crate) fn reaches(&self, address: IpAddr, port: u16) -> bool {
        reaches(&self.netns, address, port)
    }

    /// True if the server of a protocol at an address answers.
    pub(crate) fn reaches_over(&self, protocol: &str, address: IpAddr, port: u16) -> bool {
        let to = SocketAddr::new(address, port);
        match protocol {
            "UDP" => arrived(to, packets::exchange_udp(&self.netns.udp_socket(to, QUIET), to)),
            "SCTP" => arrived(to, self.netns.request_sctp(to, QUIET)),
            _ => self.reaches(address, port),
        }
    }

    /// Starts a UDP and an SCTP server at a port.
    pub(crate) fn serve_udp_and_sctp(&self, port: u16) {
        let address = SocketAddr::new(self.address, port).to_string();
        self.netns.serve_udp(&address);
        self.netns.serve_sctp(&address, "here");
    }

    /// Routes an address over the link itself, past the gateway, as a pod with NET_ADMIN can, or one with NET_RAW that
    /// sends frames of its own.
    pub(crate) fn bypass_gateway(&self, address: IpAddr) {
        let mut routing = self.netns.routing();
        let link = routing.link("eth0").unwrap().unwrap().index;
        let destination = Cidr::single(address);
        routing.set_route(&Route { destination, gateway: None, link, source: None }).unwrap();
    }

    /// Adds another pod's address to this one.
    pub(crate) fn take_address(&self, address: IpAddr) {
        self.netns.address("eth0", &format!("{address}/32"));
    }

    /// True if a datagram from an address arrives at another pod.
    pub(crate) fn sends_as(&self, source: IpAddr, other: &Pod) -> bool {
        let receiver = other.netns.run(|| UdpSocket::bind((other.address, 0))).unwrap();
        receiver.set_read_timeout(Some(QUIET)).unwrap();
        let sender = self.netns.run(|| UdpSocket::bind((source, 0))).unwrap();
        sender.send_to(b"?", receiver.local_addr().unwrap()).unwrap();
        arrived(receiver.local_addr().unwrap(), receiver.recv_from(&mut [0]))
    }

    /// A connection that stays open.
    pub(crate) fn connect(&self, address: IpAddr, port: u16) -> TcpStream {
        self.netns.connect(SocketAddr::new(address, port), QUIET).unwrap()
    }
}

fn reaches(from: &Netns, address: IpAddr, port: u16) -> bool {
    let to = SocketAddr::new(address, port);
    let exchange = || {
        let mut stream = from.connect(to, QUIET)?;
        stream.write_all(b"?")?;
        stream.read_exact(&mut [0])
    };
    arrived(to, exchange())
}

/// True if there was a response, false after a timeout. Panics for other errors, such as a refused connection.
fn arrived<T>(to: SocketAddr, response: io::Result<T>) -> bool {
    match response.map_err(|error| error.kind()) {
        Ok(_) => true,
        Err(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => false,
        Err(kind) => panic!("{to}: {kind:?}"),
    }
}

pub(crate) struct World {
    base: packets::World,
    pub(crate) inputs: Inputs,
    enforcer: Enforcer,
    pub(crate) pods: BTreeMap<&'static str, Pod>,
}

impl World {
    pub(crate) fn new() -> World {
        let base = packets::World::new(&["10.244.1.0/24"]);
        base.outside.route("node", "10.244.1.0/24", NODE);
        PORTS.iter().for_each(|port| base.outside.serve_echo(packets::at(OUTSIDE, *port)));
        let enforcer = Enforcer::open("here", &base.node.namespace()).unwrap();
        World { base, inputs: Inputs::default(), enforcer, pods: BTreeMap::new() }
    }

    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        self.inputs.namespace(&changed(&value!({"metadata": {"name": (name), "labels": (labels)}})));
    }

    /// Adds a pod to this node, with its servers.
    pub(crate) fn pod(&mut self, namespace: &str, name: &'static str, labels: Value) {
        let (netns, addresses) = self.base.pod(name, &[]);
        let address = addresses[0];
        PORTS.iter().for_each(|port| netns.serve_echo(SocketAddr::new(address, *port)));
        let object = value!({
            "metadata": {"namespace": (namespace), "name": (name), "labels": (labels)},
            "spec": {"nodeName": "here", "containers": [{"ports": [{"name": "web", "containerPort": 80}]}]},
            "status": {"phase": "Running", "podIPs": [{"ip": (address.to_string())}]},
        });
        self.inputs.pod(&changed(&object));
        self.pods.insert(name, Pod { netns, object, address });
    }

    pub(crate) fn policy(&mut self, namespace: &str, name: &str, spec: Value) {
        let object = value!({"metadata": {"namespace": (namespace), "name": (name)}, "spec": (spec)});
        self.inputs.policy(&changed(&object));
    }

    pub(crate) fn set_bridge_netfilter(&self, on: bool) {
        self.base.node.set_bridge_netfilter(on);
    }

    pub(crate) fn enforce(&mut self) {
        let wanted = self.enforcer.wanted(&self.inputs);
        self.enforcer.enforce(wanted).unwrap();
    }

    /// Replaces the enforcer by that of a new process.
    pub(crate) fn restart(&mut self) {
        self.enforcer = Enforcer::open("here", &self.base.node.namespace()).unwrap();
    }

    pub(crate) fn is_reached_from_outside(&self, pod: &str, port: u16) -> bool {
        reaches(&self.base.outside, self.pods[pod].address, port)
    }
}

pub(crate) fn changed(object: &Value) -> Change {
    Change { old: None, new: Some(Arc::new(Object::of(object))) }
}

pub(crate) fn gone(object: &Value) -> Change {
    Change { old: Some(Arc::new(Object::of(object))), new: None }
}
