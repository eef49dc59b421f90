//! Machines on a network, each a network namespace, and the switch between them: a cluster of several nodes
//! on one machine.

use std::io;
use std::net::IpAddr;

use corten_net::Cidr;
use corten_net::namespace::Namespace;
use corten_net::route::{Change, Route, Routing, Veth};
use corten_sys::namespaces::new_network;

const MTU: u32 = 1500;
/// The name of a machine's link.
const LINK: &str = "eth0";

/// The network of the machines, with a router that leads nowhere.
pub struct Switch {
    namespace: Namespace,
    bridge: u32,
}

/// A machine with its own network namespace; it shares everything else with the others.
pub struct Machine {
    namespace: Namespace,
    pub address: IpAddr,
}

impl Switch {
    /// The network `192.0.2.0/24`.
    pub fn new() -> Switch {
        let namespace = fresh();
        let mut routing = Routing::open(&namespace).expect("routes can be written");
        routing.add_bridge("switch", MTU, [2, 0, 0, 0, 0, 254]).expect("a bridge is made");
        let bridge = up(&mut routing, "switch");
        routing.add_address(bridge, cidr("192.0.2.254/24")).expect("it gets an address");
        Switch { namespace, bridge }
    }

    /// A machine at `192.0.2.<number>`.
    pub fn machine(&self, number: u8) -> Machine {
        let namespace = fresh();
        let name = format!("port{number}");
        let mut routing = Routing::open(&self.namespace).expect("routes can be written");
        let veth = Veth {
            name: &name,
            mtu: MTU,
            peer: LINK,
            peer_namespace: &namespace,
            peer_hardware: [2, 0, 0, 0, 0, number],
        };
        routing.add_veth(&veth).expect("a cable is laid");
        let port = up(&mut routing, &name);
        let change = Change { up: true, master: Some(self.bridge), ..Change::default() };
        routing.change_link(port, change).expect("the cable is plugged in");
        let mut inside = Routing::open(&namespace).expect("routes can be written");
        let link = up(&mut inside, LINK);
        let address = cidr(&format!("192.0.2.{number}/24"));
        inside.add_address(link, address).expect("it gets an address");
        let gateway = Some([192, 0, 2, 254].into());
        let everywhere = Route { destination: cidr("0.0.0.0/0"), gateway, link, source: None };
        inside.set_route(&everywhere).expect("it gets a way out");
        Machine { namespace, address: address.address() }
    }

    /// Disconnects a machine, or connects it again.
    pub fn set_connected(&self, machine: &Machine, connected: bool) {
        let mut routing = Routing::open(&self.namespace).expect("routes can be written");
        let IpAddr::V4(address) = machine.address else { return };
        let name = format!("port{}", address.octets()[3]);
        let port = routing.link(&name).expect("links can be read").expect("it has a port").index;
        let master = Some(if connected { self.bridge } else { 0 });
        let change = Change { up: true, master, ..Change::default() };
        routing.change_link(port, change).expect("the cable is moved");
    }
}

impl Default for Switch {
    fn default() -> Switch {
        Switch::new()
    }
}

impl Machine {
    /// The network namespace at a path, such as a pod's.
    #[track_caller]
    pub fn at(path: &str, address: IpAddr) -> Machine {
        Machine { namespace: Namespace::open(path).expect("it is there"), address }
    }

    /// Another handle to the machine.
    #[track_caller]
    pub fn again(&self) -> Machine {
        let namespace = self.namespace.duplicate().expect("descriptors are left");
        Machine { namespace, address: self.address }
    }

    /// Routes an address through a neighbour.
    #[track_caller]
    pub fn route(&self, to: IpAddr, through: IpAddr) {
        let mut routing = Routing::open(&self.namespace).expect("routes can be written");
        let link = routing.link(LINK).expect("links can be read").expect("it has a link").index;
        let route = Route { destination: Cidr::single(to), gateway: Some(through), link, source: None };
        routing.set_route(&route).expect("the route is made");
    }

    /// Runs a function in the namespace: its processes and connections belong to it.
    #[track_caller]
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(|| Ok(work())).expect("it went well there")
    }
}

/// A namespace with a loopback interface only.
fn fresh() -> Namespace {
    let namespace: Namespace = new_network().expect("a network namespace (this needs root)").into();
    let mut routing = Routing::open(&namespace).expect("routes can be written");
    up(&mut routing, "lo");
    namespace
}

fn up(routing: &mut Routing, link: &str) -> u32 {
    let found: io::Result<_> = routing.link(link);
    let index = found.expect("links can be read").expect("it is there").index;
    routing.change_link(index, Change { up: true, ..Change::default() }).expect("links can be turned on");
    index
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a network")
}
