//! A node with a pod network and an uplink, and the network outside it.

use std::net::IpAddr;
use std::path::PathBuf;

use corten_net::route::Veth;
use corten_net::{Across, Cidr, HostPort, Options, PodNetwork};

use crate::Netns;

pub const NODE: &str = "192.0.2.1";
pub const OUTSIDE: &str = "192.0.2.2";
pub const NODE6: &str = "2001:db8::1";
pub const OUTSIDE6: &str = "2001:db8::2";
/// The bridge of the pod network.
pub const BRIDGE: &str = "pods0";

/// Unusual, so that tests see it passed on to pods.
const MTU: u32 = 1400;

/// A node and the network outside it. The node's default route leads outside.
pub struct World {
    pub node: Netns,
    /// A machine at the node's uplink. Its interface to the node is called `node`.
    pub outside: Netns,
    pub network: PodNetwork,
    folder: tempfile::TempDir,
}

impl World {
    /// A node with these pod CIDRs.
    pub fn new(pod_cidrs: &[&str]) -> World {
        let (node, outside) = (Netns::new(), Netns::new());
        let veth = Veth {
            name: "uplink",
            mtu: MTU,
            peer: "node",
            peer_namespace: &outside.namespace(),
            peer_hardware: [2, 0, 0, 0, 0, 2],
        };
        node.routing().add_veth(&veth).unwrap();
        for (netns, link, v4, v6) in [(&node, "uplink", NODE, NODE6), (&outside, "node", OUTSIDE, OUTSIDE6)] {
            netns.address(link, &format!("{v4}/24"));
            netns.address(link, &format!("{v6}/64"));
            netns.up(link);
        }
        node.route("uplink", "0.0.0.0/0", OUTSIDE);
        node.route("uplink", "::/0", OUTSIDE6);
        let folder = tempfile::tempdir().unwrap();
        let network = open_network(&node, &folder, None);
        let world = World { node, outside, network, folder };
        world.set_pod_cidrs(pod_cidrs);
        world
    }

    pub fn set_pod_cidrs(&self, cidrs: &[&str]) {
        let cidrs: Vec<Cidr> = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        self.network.set_pod_cidrs(&cidrs).unwrap();
    }

    /// The world after its process was killed and a new one has started: dropping a network cleans nothing up.
    #[must_use]
    pub fn restarted(self, pod_cidrs: &[&str]) -> World {
        let World { node, outside, network, folder } = self;
        drop(network);
        let network = open_network(&node, &folder, None);
        let world = World { node, outside, network, folder };
        world.set_pod_cidrs(pod_cidrs);
        world
    }

    /// The folder of the pod network's records.
    pub fn records(&self) -> PathBuf {
        self.folder.path().join("pods")
    }

    /// A pod of the network, and its addresses.
    pub fn pod(&self, sandbox: &str, ports: &[HostPort]) -> (Netns, Vec<IpAddr>) {
        let pod = Netns::unconfigured();
        let addresses = self.attach(sandbox, &pod, ports);
        (pod, addresses)
    }

    #[track_caller]
    pub fn attach(&self, sandbox: &str, pod: &Netns, ports: &[HostPort]) -> Vec<IpAddr> {
        self.network.attach(sandbox, &pod.path(), ports).unwrap()
    }

    /// The names of the bridge's ports.
    pub fn bridge_ports(&self) -> Vec<String> {
        let mut routing = self.node.routing();
        let bridge = routing.link(BRIDGE).unwrap().unwrap().index;
        let links = routing.links().unwrap().into_iter();
        links.filter(|link| link.master == bridge).map(|link| link.name).collect()
    }
}

/// Opens a node's pod network, whose records are in `folder`.
pub fn open_network(node: &Netns, folder: &tempfile::TempDir, across: Option<Across>) -> PodNetwork {
    let (folder, bridge) = (folder.path().join("pods"), BRIDGE.to_owned());
    PodNetwork::open(Options { folder, bridge, mtu: None, across }, node.namespace()).unwrap()
}
