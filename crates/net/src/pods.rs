//! Attaches pods to the network, and detaches them.
//!
//! A pod has a single address (`/32`, `/128`) and sends everything through the node, traffic to other pods as well: so every
//! packet passes the node's rules, whatever the bridge does with frames.

mod across;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::error::During;
use crate::namespace::Namespace;
use crate::nftables::Nftables;
use crate::peers::{Between, Peer};
use crate::records::Records;
use crate::route::{Change, Link, Route, Routing, Veth};
use crate::rules::{Model, Tunnel, table};
use crate::{Attachment, Cidr, Error, HostPort, Result, addresses, guard, host, tunnel};

/// The pod's interface, within the pod.
const INSIDE: &str = "eth0";
/// The prefix of the node's ends of veth pairs.
const PREFIX: &str = "veth";
/// The bridge family may be missing from a kernel.
const GUARDING: &str = "cannot write anti-spoofing rules (the kernel needs CONFIG_NF_TABLES_BRIDGE)";
const DEFAULT_MTU: u32 = 1500;
const LARGEST_MTU: u32 = 65535;

#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the pods' records.
    pub folder: PathBuf,
    /// At most 15 characters.
    pub bridge: String,
    /// `None` is the MTU of the default route's link.
    pub mtu: Option<u32>,
    /// `None` for a node without other nodes.
    pub across: Option<Across>,
}

/// The connection of this node to other nodes.
#[derive(Debug, Clone, Copy)]
pub struct Across {
    pub between: Between,
    /// The node's address for other nodes.
    pub node: IpAddr,
}

/// The pod network of the namespace it was opened in.
#[derive(Debug)]
pub struct PodNetwork {
    options: Options,
    namespace: Namespace,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    routing: Routing,
    nftables: Nftables,
    records: Records,
    cidrs: Vec<Cidr>,
    /// The other nodes, once they are known.
    peers: Option<Vec<Peer>>,
    /// The error of the last preparation of the node.
    trouble: Option<String>,
    /// The last allocated address of each network.
    last: Vec<IpAddr>,
    /// The model of the rules in the kernel, once they are written.
    applied: Option<Model>,
    /// True if the anti-spoofing rules have the ports of all recorded pods.
    guarded: bool,
}

impl PodNetwork {
    /// Opens the network with the records of earlier processes, and removes leftovers of missing pods.
    pub fn open(options: Options, namespace: Namespace) -> Result<PodNetwork> {
        let routing = Routing::open(&namespace).during("cannot open a netlink socket for routes")?;
        let nftables = Nftables::open(&namespace).during("cannot open a netlink socket for nftables")?;
        let records = Records::load(&options.folder)?;
        let last = records.addresses().map(|address| address.address()).max();
        let mut state = State {
            routing,
            nftables,
            records,
            cidrs: Vec::new(),
            peers: None,
            trouble: None,
            last: last.into_iter().collect(),
            applied: None,
            guarded: false,
        };
        state.clean_up(&options.bridge)?;
        Ok(PodNetwork { options, namespace, state: Mutex::new(state) })
    }

    /// The reason why pods cannot be attached now; `None` if the network is ready.
    pub fn not_ready(&self) -> Option<String> {
        let state = self.state.lock();
        if state.cidrs.is_empty() { Some(Error::NoPodCidr.to_string()) } else { state.trouble.clone() }
    }

    /// Sets the node's pod CIDRs, the primary one first, and prepares the node for them.
    pub fn set_pod_cidrs(&self, cidrs: &[Cidr]) -> Result<()> {
        let mut state = self.state.lock();
        state.cidrs = cidrs.iter().map(Cidr::network).collect();
        if state.cidrs.is_empty() {
            return Ok(());
        }
        self.prepare(&mut state)?;
        state.lead_across(&self.options)
    }

    /// Sets the other nodes, and the routes to their pods.
    pub fn set_peers(&self, peers: &[Peer]) -> Result<()> {
        let mut state = self.state.lock();
        state.peers = Some(peers.to_vec());
        if state.cidrs.is_empty() { Ok(()) } else { state.lead_across(&self.options) }
    }

    /// Attaches a pod, and returns its addresses, the primary one first.
    pub fn attach(&self, sandbox: &str, namespace: &Path, host_ports: &[HostPort]) -> Result<Vec<IpAddr>> {
        let pod = Namespace::open(namespace).during(format!("cannot open {}", namespace.display()))?;
        let mut state = self.state.lock();
        if state.cidrs.is_empty() {
            return Err(Error::NoPodCidr);
        }
        let attachment = state.reserve(sandbox, host_ports)?;
        let bridge = self.prepare(&mut state)?;
        state.connect(sandbox, &pod, &bridge, &attachment)?;
        configure(&pod, &attachment.addresses)?;
        Ok(attachment.addresses.iter().map(Cidr::address).collect())
    }

    /// Undoes [`PodNetwork::attach`]. The namespace may be gone; detaching twice is no error.
    pub fn detach(&self, sandbox: &str) -> Result<()> {
        let mut state = self.state.lock();
        state.disconnect(&link_name(sandbox))?;
        let had = state.records.get(sandbox).cloned();
        state.records.remove(sandbox)?;
        let Some(had) = had else { return Ok(()) };
        state.unguard(sandbox, &had)?;
        if had.host_ports.is_empty() { Ok(()) } else { state.apply(&self.options) }
    }

    /// Prepares bridge, sysctls, routes and rules of the node, and returns the bridge.
    fn prepare(&self, state: &mut State) -> Result<Link> {
        let prepared = state.prepare(&self.options, &self.namespace);
        state.trouble = prepared.as_ref().err().map(|error| format!("{error}{}", reason(error)));
        prepared
    }
}

impl State {
    /// Returns the pod's recorded attachment, or allocates and records a new one.
    fn reserve(&mut self, sandbox: &str, host_ports: &[HostPort]) -> Result<Attachment> {
        self.records.free(sandbox, host_ports)?;
        let addresses = match self.records.get(sandbox) {
            Some(known) => known.addresses.clone(),
            None => self.cidrs.iter().map(|cidr| self.free_address(*cidr)).collect::<Result<_>>()?,
        };
        let attachment = Attachment { addresses, host_ports: host_ports.to_vec() };
        self.records.insert(sandbox, attachment.clone())?;
        self.last = attachment.addresses.iter().map(Cidr::address).collect();
        Ok(attachment)
    }

    fn free_address(&self, network: Cidr) -> Result<Cidr> {
        let taken = |address| self.records.addresses().any(|taken| taken.address() == address);
        let last = self.last.iter().copied().find(|last| network.contains(*last));
        let free = addresses::next(network, taken, last);
        free.and_then(|address| Cidr::new(address, network.prefix())).ok_or(Error::Exhausted(network))
    }

    /// The networks of new and existing pods: pods keep theirs when the node's pod CIDRs change.
    fn networks(&self) -> Vec<Cidr> {
        let mut networks = self.cidrs.clone();
        networks.extend(self.records.addresses().map(|address| address.network()));
        networks.sort_unstable();
        networks.dedup();
        networks
    }

    fn prepare(&mut self, options: &Options, namespace: &Namespace) -> Result<Link> {
        let name = &options.bridge;
        let networks = self.networks();
        let ipv6 = networks.iter().any(|network| !network.is_ipv4());
        let bridge = self.bridge(options).during(format!("cannot create the bridge {name}"))?;
        namespace.run(|| host::enable_forwarding(name, ipv6)).during("cannot enable IP forwarding")?;
        let gateways: Vec<Cidr> =
            networks.iter().filter_map(|network| addresses::gateway(*network)).collect();
        self.routing
            .set_addresses(bridge.index, &gateways)
            .during(format!("cannot assign addresses to {name}"))?;
        self.apply(options)?;
        self.guard_all()?;
        Ok(bridge)
    }

    fn bridge(&mut self, options: &Options) -> io::Result<Link> {
        let name = &options.bridge;
        let found = self.routing.link(name)?;
        let mtu = match (options.mtu, &found) {
            (Some(mtu), _) => mtu,
            (None, Some(bridge)) => bridge.mtu,
            (None, None) => self.mtu_for_pods(options)?,
        };
        if found.is_none() {
            let gateway = self.cidrs.first().and_then(|cidr| addresses::gateway(*cidr));
            let gateway = gateway.map_or(IpAddr::from([0, 0, 0, 1]), |gateway| gateway.address());
            self.routing.add_bridge(name, mtu, addresses::hardware(gateway))?;
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{name} is gone"));
        let bridge = self.routing.link(name)?.ok_or_else(missing)?;
        if !bridge.up || bridge.mtu != mtu {
            let change = Change { up: true, mtu: Some(mtu), ..Change::default() };
            self.routing.change_link(bridge.index, change)?;
        }
        Ok(Link { mtu, up: true, ..bridge })
    }

    /// The MTU of pods: that of the uplink, less the overhead of a tunnel if there is one.
    fn mtu_for_pods(&mut self, options: &Options) -> io::Result<u32> {
        let taken = match options.across {
            Some(Across { between: Between::Vxlan, node }) => tunnel::overhead(node),
            _ => 0,
        };
        Ok(self.uplink_mtu()?.saturating_sub(taken))
    }

    /// The MTU of the default route's link.
    fn uplink_mtu(&mut self) -> io::Result<u32> {
        let out = self.routing.routes()?.into_iter().find(|route| route.destination.prefix() == 0);
        let links = self.routing.links()?;
        let link = out.and_then(|route| links.into_iter().find(|link| link.index == route.link));
        Ok(link.map_or(DEFAULT_MTU, |link| link.mtu.min(LARGEST_MTU)))
    }

    /// Writes the rules, if they changed.
    fn apply(&mut self, options: &Options) -> Result<()> {
        let is_tunnelled = options.across.is_some_and(|across| matches!(across.between, Between::Vxlan));
        let nodes = self.peers.as_ref().map(|peers| peers.iter().map(|peer| peer.address).collect());
        let model = Model {
            bridge: options.bridge.clone(),
            tunnel: is_tunnelled.then(|| Tunnel { link: across::TUNNEL.to_owned(), nodes }),
            node: self.networks(),
            others: self.peers.iter().flatten().flat_map(|peer| peer.pod_cidrs.iter().copied()).collect(),
            host_ports: self.records.mappings(),
        };
        if self.applied.as_ref() != Some(&model) {
            self.applied = None;
            table(&model).commit(&mut self.nftables).during("cannot write the rules of the pod network")?;
            self.applied = Some(model);
        }
        Ok(())
    }

    /// Writes the anti-spoofing rules of all pods, if they may be incomplete.
    fn guard_all(&mut self) -> Result<()> {
        if self.guarded {
            return Ok(());
        }
        let port = |sandbox: &String| guard::Port::of(link_name(sandbox), self.records.get(sandbox)?);
        let ports: Vec<guard::Port> = self.records.sandboxes().filter_map(port).collect();
        guard::table(&ports).commit(&mut self.nftables).during(GUARDING)?;
        self.guarded = true;
        Ok(())
    }

    /// Adds the pod's port to the anti-spoofing rules.
    fn guard(&mut self, sandbox: &str, attachment: &Attachment) -> Result<()> {
        let port = guard::Port::of(link_name(sandbox), attachment).ok_or(Error::NoPodCidr)?;
        if self.guarded && guard::adding(&port).commit(&mut self.nftables).is_ok() {
            return Ok(());
        }
        // Another program changed the table: the whole table is replaced.
        self.guarded = false;
        self.guard_all()
    }

    fn unguard(&mut self, sandbox: &str, attachment: &Attachment) -> Result<()> {
        let Some(port) = guard::Port::of(link_name(sandbox), attachment).filter(|_| self.guarded) else {
            return Ok(());
        };
        if guard::removing(&port).commit(&mut self.nftables).is_ok() {
            return Ok(());
        }
        self.guarded = false;
        self.guard_all()
    }

    /// Creates the pod's veth pair and joins it to the bridge.
    fn connect(
        &mut self,
        sandbox: &str,
        pod: &Namespace,
        bridge: &Link,
        attachment: &Attachment,
    ) -> Result<()> {
        let name = &link_name(sandbox);
        let has_end = Routing::open(pod)
            .and_then(|mut pod| pod.link(INSIDE))
            .during("cannot read the pod's interfaces")?;
        if has_end.is_none() {
            // An interrupted attempt may have left the other end in a namespace that is gone.
            self.disconnect(name)?;
        }
        let primary = attachment.addresses.first().ok_or(Error::NoPodCidr)?.address();
        let veth = Veth {
            name,
            mtu: bridge.mtu,
            peer: INSIDE,
            peer_namespace: pod,
            peer_hardware: addresses::hardware(primary),
        };
        let making = || format!("cannot create the interface {name}");
        if self.routing.link(name).during(making())?.is_none() {
            self.routing.add_veth(&veth).during(making())?;
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it is gone");
        let link = self.routing.link(name).and_then(|link| link.ok_or_else(missing)).during(making())?;
        self.guard(sandbox, attachment)?;
        let change =
            Change { up: true, master: Some(bridge.index), alias: Some(sandbox), ..Change::default() };
        self.routing
            .change_link(link.index, change)
            .during(format!("cannot attach {name} to bridge {}", bridge.name))?;
        self.routing.hairpin(link.index).during(format!("cannot set hairpin mode of {name}"))
    }

    fn disconnect(&mut self, link: &str) -> Result<()> {
        let removing = || format!("cannot remove the interface {link}");
        match self.routing.link(link).during(removing())? {
            Some(link) => self.routing.delete_link(link.index).during(removing()),
            None => Ok(()),
        }
    }

    /// Removes records without an interface, as after a reboot, and interfaces without a record, as after an interrupted attempt.
    fn clean_up(&mut self, bridge: &str) -> Result<()> {
        let links = self.routing.links().during("cannot list interfaces")?;
        let gone = |sandbox: &&String| !links.iter().any(|link| link.name == link_name(sandbox));
        let lost: Vec<String> = self.records.sandboxes().filter(gone).cloned().collect();
        for sandbox in lost {
            tracing::info!(sandbox, "pod interface is gone; releasing its addresses");
            self.records.remove(&sandbox)?;
        }
        let Some(bridge) = links.iter().find(|link| link.name == bridge) else { return Ok(()) };
        let known: Vec<String> = self.records.sandboxes().map(|sandbox| link_name(sandbox)).collect();
        let ours = |link: &&Link| link.master == bridge.index && link.name.starts_with(PREFIX);
        for link in links.iter().filter(ours).filter(|link| !known.contains(&link.name)) {
            tracing::info!(link = link.name, "removing orphaned pod interface");
            self.routing
                .delete_link(link.index)
                .during(format!("cannot remove the interface {}", link.name))?;
        }
        Ok(())
    }
}

/// Configures the pod's side: addresses and routes.
fn configure(pod: &Namespace, addresses: &[Cidr]) -> Result<()> {
    let ipv6 = addresses.iter().any(|address| !address.is_ipv4());
    pod.run(|| host::ignore_routers(INSIDE, ipv6)).during("cannot configure the pod's interface")?;
    configure_links(pod, addresses).during("cannot assign addresses to the pod's interface")
}

fn configure_links(pod: &Namespace, given: &[Cidr]) -> io::Result<()> {
    let mut routing = Routing::open(pod)?;
    let up = Change { up: true, ..Change::default() };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the pod's interface is gone");
    let loopback = routing.link("lo")?.ok_or_else(missing)?;
    routing.change_link(loopback.index, up)?;
    let link = routing.link(INSIDE)?.ok_or_else(missing)?.index;
    for address in given {
        routing.add_address(link, Cidr::single(address.address()))?;
    }
    routing.change_link(link, up)?;
    for gateway in given.iter().filter_map(|address| addresses::gateway(address.network())) {
        let (gateway, any) = (gateway.address(), everywhere(gateway.address()));
        routing.set_route(&Route {
            destination: Cidr::single(gateway),
            gateway: None,
            link,
            source: None,
        })?;
        routing.set_route(&Route { destination: any, gateway: Some(gateway), link, source: None })?;
    }
    Ok(())
}

fn everywhere(like: IpAddr) -> Cidr {
    let any: IpAddr = if like.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    Cidr::new(any, 0).unwrap_or(Cidr::single(any))
}

/// The name of the node's end of a pod's interface: always the same for a sandbox. (FNV-1a; 44 of its bits.)
fn link_name(sandbox: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = sandbox.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{PREFIX}{:011x}", hash >> 20)
}

/// The sources of an error, as a suffix of its message.
fn reason(error: &Error) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_are_short_and_distinct() {
        let (a, b) = (link_name("0123456789abcdef"), link_name("0123456789abcdee"));
        assert_eq!(a.len(), 15);
        assert_ne!(a, b);
        assert_eq!(a, link_name("0123456789abcdef"));
    }
}
