//! A node with a pod network and a proxy, and the world outside it. Pods of other nodes are out there, too.

use std::collections::BTreeSet;
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
use corten_proxy::config::DetectLocal;
use corten_proxy::inputs::Inputs;
use corten_proxy::{Config, Engine, Mode};
use corten_sys::namespaces::new_network;
use corten_testkit_sctp as sctp;
use parking_lot::Mutex;

/// Long enough for anything that arrives at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough to believe that nothing arrives.
const DOUBT: Duration = Duration::from_millis(400);

pub(crate) const NODE: &str = "192.0.2.1";
pub(crate) const OUTSIDE: &str = "192.0.2.2";
pub(crate) const NODE6: &str = "2001:db8::1";
pub(crate) const OUTSIDE6: &str = "2001:db8::2";
/// A pod of another node.
pub(crate) const REMOTE: &str = "10.244.9.2";
pub(crate) const BRIDGE: &str = "pods0";
/// The node's own address among its pods.
pub(crate) const GATEWAY: &str = "10.244.1.1";

/// Somewhere to be: a namespace with what is in it.
pub(crate) struct Place(Namespace);

impl Place {
    fn new() -> Place {
        let place = Place(new_network().expect("a network namespace (this needs root)").into());
        place.up("lo");
        place
    }

    pub(crate) fn namespace(&self) -> Namespace {
        Namespace::open(self.path()).unwrap()
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd()).into()
    }

    fn routing(&self) -> Routing {
        Routing::open(&self.0).unwrap()
    }

    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.run(work)
    }

    fn up(&self, link: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.change_link(index, route::Change { up: true, ..route::Change::default() }).unwrap();
    }

    pub(crate) fn address(&self, link: &str, address: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.add_address(index, address.parse().unwrap()).unwrap();
    }

    fn route(&self, link: &str, destination: &str, gateway: &str) {
        let mut routing = self.routing();
        let link = routing.link(link).unwrap().unwrap().index;
        let destination = destination.parse().unwrap();
        routing.set_route(&Route { destination, gateway: gateway.parse().ok(), link, source: None }).unwrap();
    }

    /// Answers each connection with a name and whom it comes from.
    pub(crate) fn serve(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let listener = self.run(|| TcpListener::bind(address)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, from)) = listener.accept() {
                let _ = write!(stream, "{name} {}", from.ip());
            }
        });
    }

    /// Answers each datagram so.
    pub(crate) fn serve_udp(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let socket = self.run(|| UdpSocket::bind(address)).unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
                let _ = socket.send_to(format!("{name} {}", from.ip()).as_bytes(), from);
            }
        });
    }

    /// Answers whoever asks for an association so.
    pub(crate) fn serve_sctp(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let server = self.run(|| sctp::Server::bind(address)).unwrap();
        std::thread::spawn(move || server.serve(name));
    }

    /// Who answers at an address, and whom they see.
    pub(crate) fn ask(&self, address: SocketAddr, patience: Duration) -> io::Result<String> {
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

    /// Everybody who answers sooner or later.
    #[track_caller]
    pub(crate) fn reaches_each(&self, address: SocketAddr, expected: &[&str]) {
        let mut names = BTreeSet::new();
        for _ in 0..200 {
            let answer = self.reaches(address);
            names.insert(answer.split(' ').next().unwrap().to_owned());
            if names.len() == expected.len() {
                break;
            }
        }
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{address}");
    }

    /// Nobody answers, and nobody says so.
    #[track_caller]
    pub(crate) fn waits_in_vain(&self, address: SocketAddr) {
        let answer = self.ask(address, DOUBT);
        let kind = answer.as_ref().map_err(io::Error::kind);
        assert!(
            matches!(kind, Err(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)),
            "{address}: {answer:?}"
        );
    }

    /// It is said at once that nobody is there.
    #[track_caller]
    pub(crate) fn is_refused(&self, address: SocketAddr) {
        let answer = self.ask(address, PATIENCE);
        let kind = answer.as_ref().map_err(io::Error::kind);
        assert!(matches!(kind, Err(io::ErrorKind::ConnectionRefused)), "{address}: {answer:?}");
    }

    /// Who takes up an association.
    pub(crate) fn ask_sctp(&self, address: SocketAddr) -> io::Result<String> {
        self.run(|| sctp::Client::new(address))?.ask(PATIENCE)
    }

    pub(crate) fn udp(&self) -> UdpSocket {
        let socket = self.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        socket.set_read_timeout(Some(DOUBT)).unwrap();
        socket
    }
}

/// Who answers a datagram, from one socket and so in one flow.
pub(crate) fn ask_udp(socket: &UdpSocket, address: SocketAddr) -> io::Result<String> {
    socket.send_to(b"?", address)?;
    let mut buffer = [0; 64];
    let (read, from) = socket.recv_from(&mut buffer)?;
    assert_eq!(from, address, "the answer comes from where the question went");
    Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
}

pub(crate) struct World {
    pub(crate) node: Place,
    pub(crate) outside: Place,
    pub(crate) network: PodNetwork,
    pub(crate) inputs: Mutex<Inputs>,
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(mode: Mode) -> World {
        World::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut Config)) -> World {
        let (node, outside) = (Place::new(), Place::new());
        let veth = Veth {
            name: "uplink",
            mtu: 1500,
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
        // Who is outside is the node's way out, too: telling it of shorter ways would use up what else may be told.
        node.run(|| std::fs::write("/proc/sys/net/ipv4/conf/uplink/send_redirects", "0")).unwrap();
        node.route("uplink", "0.0.0.0/0", OUTSIDE);
        node.route("uplink", "::/0", OUTSIDE6);
        outside.address("lo", &format!("{REMOTE}/32"));
        // Whatever is not known out there is on the node: addresses of services and of load balancers, too.
        for destination in ["10.96.0.0/12", "198.51.100.0/24"] {
            outside.route("node", destination, NODE);
        }
        let folder = tempfile::tempdir().unwrap();
        let bridge = BRIDGE.to_owned();
        let options = Options { folder: folder.path().join("pods"), bridge, mtu: None, across: None };
        let network = PodNetwork::open(options, node.namespace()).unwrap();
        let cidrs = ["10.244.1.0/24", "fd00:244:1::/64"].map(|cidr| cidr.parse::<Cidr>().unwrap());
        network.set_pod_cidrs(&cidrs).unwrap();
        let detect_local = DetectLocal::BridgeInterface(BRIDGE.to_owned());
        let mut config = Config { mode, detect_local, ..Config::default() };
        change(&mut config);
        let engine = Engine::open(config.clone(), node.namespace()).unwrap();
        let world =
            World { node, outside, network, inputs: Mutex::default(), engine, config, _folder: folder };
        let node = value!({
            "metadata": {"name": "here"}, "status": {"addresses": [{"type": "InternalIP", "address": (NODE)}]},
        });
        world.inputs.lock().node(&changed(&node));
        world
    }

    /// A connected pod of this node; the first one has 10.244.1.2.
    pub(crate) fn pod(&self, name: &str) -> (Place, IpAddr) {
        let pod = Place(new_network().unwrap().into());
        let addresses = self.network.attach(name, &pod.path(), &[]).unwrap();
        (pod, addresses[0])
    }

    /// Takes in a Service and writes what follows.
    pub(crate) fn service(&mut self, service: &Value) {
        self.inputs.lock().service(&changed(service));
        self.sync();
    }

    /// Takes in another node.
    pub(crate) fn node_elsewhere(&mut self, name: &str, address: &str) {
        let addresses = value!([{"type": "InternalIP", "address": (address)}]);
        let node = value!({"metadata": {"name": (name)}, "status": {"addresses": (addresses)}});
        self.inputs.lock().any_node(&changed(&node));
        self.sync();
    }

    /// Takes in an EndpointSlice.
    pub(crate) fn slice(&mut self, slice: &Value) {
        self.inputs.lock().slice(&changed(slice));
        self.sync();
    }

    #[track_caller]
    pub(crate) fn sync(&mut self) {
        let outcome = self.engine.sync(&self.inputs);
        assert!(!outcome.failed(), "{outcome:?}");
        for (_, cleaned) in self.engine.clean_up() {
            cleaned.unwrap();
        }
    }

    /// What a new process finds after the old one was killed: it has seen nothing yet.
    pub(crate) fn forget(&mut self) {
        self.engine = Engine::open(self.config.clone(), self.node.namespace()).unwrap();
    }
}

pub(crate) fn changed(object: &Value) -> Change {
    Change { old: None, new: Some(Arc::new(Object::of(object))) }
}

/// A Service called `web` at 10.96.0.1, port 80.
pub(crate) fn web(spec: &Value) -> Value {
    let mut service = value!({
        "metadata": {"namespace": "n", "name": "web"},
        "spec": {
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00:96::1"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}],
        },
    });
    for (key, value) in spec.as_object().unwrap().iter() {
        service.set(&["spec", key], value.clone());
    }
    service
}

/// Its endpoints at port 8080: addresses with the node they are on, `here` being this one.
pub(crate) fn endpoints(endpoints: &[(&str, &str)]) -> Value {
    let listed = endpoints.iter().map(|(address, node)| {
        value!({"addresses": [(*address)], "nodeName": (*node), "conditions": {"ready": true}})
    });
    let listed: Vec<Value> = listed.collect();
    let ipv6 = endpoints.first().is_some_and(|(address, _)| address.contains(':'));
    value!({
        "metadata": {
            "namespace": "n", "name": (if ipv6 { "web-6" } else { "web-4" }),
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": (if ipv6 { "IPv6" } else { "IPv4" }),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"},
            {"name": "signal", "port": 38, "protocol": "SCTP"}],
        "endpoints": (listed),
    })
}

pub(crate) fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}
