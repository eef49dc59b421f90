//! A node with a pod network and a proxy, and the network outside it, where the pods of other nodes are.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use corten_api::{Value, value};
use corten_client::{Change, Object};
use corten_proxy::config::DetectLocal;
use corten_proxy::inputs::Inputs;
use corten_proxy::{Config, Engine, Mode};
use corten_testkit_packets as packets;
use parking_lot::Mutex;

pub(crate) use corten_testkit_packets::{
    BRIDGE, DEADLINE, NODE, NODE6, Netns, OUTSIDE, QUIET, at, exchange_udp,
};

/// A pod of another node.
pub(crate) const REMOTE: &str = "10.244.9.2";
/// The node's own address among its pods.
pub(crate) const GATEWAY: &str = "10.244.1.1";

pub(crate) struct World {
    base: packets::World,
    pub(crate) inputs: Mutex<Inputs>,
    pub(crate) engine: Engine,
    pub(crate) config: Config,
}

impl Deref for World {
    type Target = packets::World;

    fn deref(&self) -> &packets::World {
        &self.base
    }
}

impl World {
    pub(crate) fn new(mode: Mode) -> World {
        World::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut Config)) -> World {
        let base = packets::World::new(&["10.244.1.0/24", "fd00:244:1::/64"]);
        let (node, outside) = (&base.node, &base.outside);
        // The machine outside is also the node's default gateway: ICMP redirects to it would use up the kernel's rate limit
        // of other ICMP errors.
        node.run(|| std::fs::write("/proc/sys/net/ipv4/conf/uplink/send_redirects", "0")).unwrap();
        outside.address("lo", &format!("{REMOTE}/32"));
        // The addresses of services and load balancers are routed to the node.
        for destination in ["10.96.0.0/12", "198.51.100.0/24"] {
            outside.route("node", destination, NODE);
        }
        let detect_local = DetectLocal::BridgeInterface(BRIDGE.to_owned());
        let mut config = Config { mode, detect_local, ..Config::default() };
        change(&mut config);
        let engine = Engine::open(config.clone(), node.namespace()).unwrap();
        let world = World { base, inputs: Mutex::default(), engine, config };
        let node = value!({
            "metadata": {"name": "here"}, "status": {"addresses": [{"type": "InternalIP", "address": (NODE)}]},
        });
        world.inputs.lock().node(&changed(&node));
        world
    }

    /// A pod of this node; the first one has 10.244.1.2.
    pub(crate) fn pod(&self, name: &str) -> (Netns, IpAddr) {
        let (pod, addresses) = self.base.pod(name, &[]);
        (pod, addresses[0])
    }

    /// Adds or changes a Service, and syncs.
    pub(crate) fn service(&mut self, service: &Value) {
        self.inputs.lock().service(&changed(service));
        self.sync();
    }

    /// Adds another node, and syncs.
    pub(crate) fn node_elsewhere(&mut self, name: &str, address: &str) {
        let addresses = value!([{"type": "InternalIP", "address": (address)}]);
        let node = value!({"metadata": {"name": (name)}, "status": {"addresses": (addresses)}});
        self.inputs.lock().any_node(&changed(&node));
        self.sync();
    }

    /// Adds or changes an EndpointSlice, and syncs.
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

    /// Replaces the proxy by that of a new process, which has synced nothing yet.
    pub(crate) fn restart(&mut self) {
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
