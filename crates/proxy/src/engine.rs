//! Brings the rules of all families up to date with what the API says: the one place where rules are changed.

use std::io;
use std::time::{Duration, Instant};

use corten_client::Key;
use corten_net::Cidr;
use corten_net::conntrack::Conntrack;
use corten_net::namespace::Namespace;
use parking_lot::Mutex;

use crate::backend::Backend;
use crate::base::{Base, LocalPods};
use crate::config::{Config, DetectLocal, Mode};
use crate::conntrack::Frontends;
use crate::inputs::Inputs;
use crate::nftables;
use crate::node_ports::NodePortAddresses;
use crate::route::Routed;

/// The rules of one network namespace.
pub struct Engine {
    config: Config,
    namespace: Namespace,
    families: Vec<Family>,
}

/// The rules of one IP family.
struct Family {
    ipv4: bool,
    backend: Box<dyn Backend>,
    conntrack: Conntrack,
}

/// What came of it in one IP family.
#[derive(Debug, Clone)]
pub struct Synced {
    pub ipv4: bool,
    /// Everything was written, rather than what changed.
    pub was_full: bool,
    pub took: Duration,
    pub failed: bool,
    /// Flows that were forgotten.
    pub forgotten: usize,
}

impl Engine {
    /// Nothing is written yet: what an earlier process left goes on.
    pub fn open(config: Config, namespace: Namespace) -> io::Result<Engine> {
        let mut families = Vec::new();
        for ipv4 in [true, false] {
            let base = base(&config, &Inputs::default(), ipv4, None);
            let backend: Box<dyn Backend> = match config.mode {
                Mode::Nftables | Mode::Iptables => Box::new(nftables::Table::open(&namespace, base)?),
            };
            families.push(Family { ipv4, backend, conntrack: Conntrack::open(&namespace)? });
        }
        Ok(Engine { config, namespace, families })
    }

    /// Writes what changed since the last time; what came of it where there was something to do.
    pub fn sync(&mut self, inputs: &Mutex<Inputs>) -> Vec<Synced> {
        let (bases, changed) = self.observe(inputs);
        let families = self.families.iter_mut().zip(bases).zip(changed);
        families.filter_map(|((family, base), services)| family.sync(base, services)).collect()
    }

    /// What holds for all Services, and what some have become, for each family.
    fn observe(&self, inputs: &Mutex<Inputs>) -> (Vec<Base>, Vec<Vec<(Key, Vec<Routed>)>>) {
        let mut inputs = inputs.lock();
        let changed = inputs.take_changed();
        let node = inputs.node.facts.clone();
        let families = || self.families.iter().map(|family| family.ipv4);
        let bases = families().map(|ipv4| base(&self.config, &inputs, ipv4, Some(&self.namespace)));
        let routed = families().map(|ipv4| {
            let services = changed.services.iter();
            services.map(|key| (key.clone(), inputs.routed(key, ipv4, &node))).collect()
        });
        (bases.collect(), routed.collect())
    }

    /// Everything is written anew the next time.
    pub fn distrust(&mut self) {
        self.families.iter_mut().for_each(|family| family.backend.distrust());
    }

    /// Whether there is something to remove that nothing leads to any more.
    pub fn has_stale(&self) -> bool {
        self.families.iter().any(|family| family.backend.has_stale())
    }

    /// Removes it. To be called a while after the last change.
    pub fn clean_up(&mut self) -> io::Result<()> {
        let stale = self.families.iter_mut().filter(|family| family.backend.has_stale());
        stale.map(|family| family.backend.clean_up()).fold(Ok(()), io::Result::and)
    }
}

impl Family {
    fn sync(&mut self, base: Base, services: Vec<(Key, Vec<Routed>)>) -> Option<Synced> {
        self.backend.set_base(base);
        let was_full = self.backend.is_full();
        if services.is_empty() && !was_full {
            return None;
        }
        let started = Instant::now();
        let frontends = Frontends::of(services.iter().flat_map(|(_, ports)| ports));
        let written = self.backend.change(services);
        let took = started.elapsed();
        let failed = written.is_err();
        if let Err(error) = written {
            tracing::warn!(ipv4 = self.ipv4, %error, "rules could not be written");
        }
        let forgotten = if failed { 0 } else { self.forget(&frontends) };
        Some(Synced { ipv4: self.ipv4, was_full, took, failed, forgotten })
    }

    /// Forgets flows that lead where nobody serves any more; how many.
    fn forget(&mut self, frontends: &Frontends) -> usize {
        if frontends.is_empty() {
            return 0;
        }
        let forgotten = self.conntrack.flows(self.ipv4).and_then(|flows| {
            let stale: Vec<_> = flows.iter().filter(|flow| frontends.is_stale(flow)).collect();
            stale.iter().try_for_each(|flow| self.conntrack.forget(flow))?;
            Ok(stale.len())
        });
        forgotten.unwrap_or_else(|error| {
            tracing::warn!(ipv4 = self.ipv4, %error, "stale flows could not be forgotten");
            0
        })
    }
}

fn base(config: &Config, inputs: &Inputs, ipv4: bool, namespace: Option<&Namespace>) -> Base {
    let node = inputs.node.facts.address(ipv4);
    let asked = if config.node_port_primary {
        NodePortAddresses::Within(node.into_iter().map(Cidr::single).collect())
    } else {
        NodePortAddresses::of(&config.node_port_addresses, ipv4)
    };
    let resolved = namespace.map(|namespace| asked.resolve(namespace)).transpose();
    let node_port_addresses = resolved.unwrap_or_else(|error| {
        tracing::warn!(%error, "the node's addresses could not be listed");
        None
    });
    Base {
        ipv4,
        masquerade_mark: 1 << config.masquerade_bit,
        masquerade_all: config.masquerade_all,
        local_pods: local_pods(&config.detect_local, inputs, ipv4),
        service_cidrs: corten_net::rules::merged(inputs.service_cidrs(ipv4)),
        node_port_addresses: node_port_addresses.flatten(),
        localhost_node_ports: config.localhost_node_ports,
        node,
    }
}

fn local_pods(detect: &DetectLocal, inputs: &Inputs, ipv4: bool) -> LocalPods {
    let first = |cidrs: &[Cidr]| cidrs.iter().copied().find(|cidr| cidr.is_ipv4() == ipv4);
    match detect {
        DetectLocal::None => LocalPods::Unknown,
        DetectLocal::ClusterCidr(cidrs) => first(cidrs).map_or(LocalPods::Unknown, LocalPods::Within),
        DetectLocal::NodeCidr => first(&inputs.node.pod_cidrs).map_or(LocalPods::Unknown, LocalPods::Within),
        DetectLocal::BridgeInterface(link) => LocalPods::Bridge(link.clone()),
        DetectLocal::InterfaceNamePrefix(prefix) => LocalPods::Prefix(prefix.clone()),
    }
}
