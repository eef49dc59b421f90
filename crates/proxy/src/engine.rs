//! Syncs the rules of all IP families with the inputs: the one place where rules are changed.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use corten_client::Key;
use corten_net::Cidr;
use corten_net::conntrack::Conntrack;
use corten_net::namespace::Namespace;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::backend::{Backend, RuleCount};
use crate::base::{Base, LocalPods};
use crate::config::{Config, DetectLocal, Mode};
use crate::conntrack::Frontends;
use crate::inputs::Inputs;
use crate::node_ports::NodePortAddresses;
use crate::route::Routed;
use crate::{iptables, nftables};

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
    /// For each Service, the ports with a Local traffic policy and no local endpoints: internal and external.
    without_local: HashMap<Key, (usize, usize)>,
}

/// The result of a sync in one IP family.
#[derive(Debug)]
pub struct Synced {
    pub ipv4: bool,
    /// True if all rules were written, rather than the changed ones.
    pub was_full: bool,
    pub took: Duration,
    pub failed: bool,
    /// The number of deleted conntrack flows, and the time it took; `None` without candidates.
    pub flows_deleted: Option<(usize, Duration)>,
    /// The number of ports with a Local traffic policy and no local endpoints: internal and external.
    pub without_local: (usize, usize),
    /// The health check node ports of changed Services, and their ready endpoints on this node.
    pub checks: Vec<(Key, Option<(u16, usize)>)>,
    /// The addresses where node ports are open; `None` is all.
    pub node_port_addresses: Option<Vec<IpAddr>>,
    /// The rules by table, where the backend counts them.
    pub rule_counts: Vec<RuleCount>,
}

/// The result of a sync in all IP families, with the trigger times of the changes in it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub families: Vec<Synced>,
    pub triggers: Vec<Timestamp>,
}

impl Outcome {
    pub fn failed(&self) -> bool {
        self.families.iter().any(|synced| synced.failed)
    }
}

/// The desired state of one family.
struct Desired {
    base: Base,
    services: Vec<(Key, Vec<Routed>)>,
    checks: Vec<(Key, Option<(u16, usize)>)>,
}

impl Engine {
    /// Opens the backends and writes nothing yet: the rules of an earlier process keep working. One IP family is enough.
    pub fn open(config: Config, namespace: Namespace) -> io::Result<Engine> {
        let (mut families, mut refusal) = (Vec::new(), None);
        for ipv4 in [true, false] {
            match Family::open(&config, &namespace, ipv4) {
                Ok(family) => families.push(family),
                Err(err) => {
                    tracing::warn!(ipv4, %err, "cannot open proxy backend; Services of this IP family are not proxied");
                    refusal = Some(err);
                }
            }
        }
        match refusal {
            Some(error) if families.is_empty() => Err(error),
            _ => Ok(Engine { config, namespace, families }),
        }
    }

    /// Writes the changes since the last sync. The outcome has the families that had any.
    pub fn sync(&mut self, inputs: &Mutex<Inputs>) -> Outcome {
        let (desired, triggers) = self.desired(inputs);
        let families = self.families.iter_mut().zip(desired);
        let families = families.filter_map(|(family, desired)| family.sync(desired)).collect();
        Outcome { families, triggers }
    }

    /// The desired state of the changed Services, and the base rules, for each family.
    fn desired(&self, inputs: &Mutex<Inputs>) -> (Vec<Desired>, Vec<Timestamp>) {
        let (changed, node) = {
            let mut inputs = inputs.lock();
            (inputs.take_changed(), inputs.node.facts.clone())
        };
        let desired = self.families.iter().map(|family| {
            let ipv4 = family.ipv4;
            let base = base(&self.config, &inputs.lock(), ipv4, Some(&self.namespace));
            let mut desired = Desired { base, services: Vec::new(), checks: Vec::new() };
            for key in &changed.services {
                // The lock is held for one Service at a time, so that a large one does not delay changes of others. Changes
                // made meanwhile are processed in the next round.
                let mut inputs = inputs.lock();
                desired.services.push((key.clone(), inputs.routed(key, ipv4, &node)));
                desired.checks.push((key.clone(), inputs.health(key, ipv4, &node)));
            }
            desired
        });
        (desired.collect(), changed.triggers)
    }

    /// Checks for removed rules. Returns true if rules have to be written again.
    pub fn inspect(&mut self) -> bool {
        let damaged = self.families.iter_mut().filter(|family| !family.backend.is_full());
        let damaged = damaged.filter_map(|family| (!family.backend.is_intact()).then_some(family));
        damaged.map(|family| family.backend.distrust()).count() > 0
    }

    /// Makes the next sync write all rules.
    pub fn distrust(&mut self) {
        self.families.iter_mut().for_each(|family| family.backend.distrust());
    }

    /// True if there are stale chains or maps to remove.
    pub fn has_stale(&self) -> bool {
        self.families.iter().any(|family| family.backend.has_stale())
    }

    /// Removes stale chains and maps. To be called a while after the last change.
    pub fn clean_up(&mut self) -> Vec<(bool, io::Result<()>)> {
        let stale = self.families.iter_mut().filter(|family| family.backend.has_stale());
        stale.map(|family| (family.ipv4, family.backend.clean_up())).collect()
    }
}

impl Family {
    fn open(config: &Config, namespace: &Namespace, ipv4: bool) -> io::Result<Family> {
        let base = base(config, &Inputs::default(), ipv4, None);
        let backend: Box<dyn Backend> = match config.mode {
            Mode::Nftables => Box::new(nftables::Table::open(namespace, base)?),
            Mode::Iptables => Box::new(iptables::Tables::open(namespace.duplicate()?, base)?),
        };
        let conntrack = Conntrack::open(namespace)?;
        Ok(Family { ipv4, backend, conntrack, without_local: HashMap::new() })
    }

    fn sync(&mut self, desired: Desired) -> Option<Synced> {
        let Desired { base, services, checks } = desired;
        let node_port_addresses = base.node_port_addresses.clone();
        self.backend.set_base(base);
        let was_full = self.backend.is_full();
        if services.is_empty() && !was_full {
            return None;
        }
        let started = Instant::now();
        let frontends = Frontends::of(services.iter().flat_map(|(_, ports)| ports));
        self.count_without_local(&services);
        let written = self.backend.change(services);
        let took = started.elapsed();
        let failed = written.is_err();
        if let Err(err) = written {
            tracing::warn!(ipv4 = self.ipv4, %err, "cannot write proxy rules; retrying");
        }
        let flows_deleted = if failed { None } else { self.delete_stale_flows(&frontends) };
        let sum = |(a, b): (usize, usize), (c, d): &(usize, usize)| (a + c, b + d);
        let without_local = self.without_local.values().fold((0, 0), sum);
        Some(Synced {
            ipv4: self.ipv4,
            was_full,
            took,
            failed,
            flows_deleted,
            without_local,
            checks,
            node_port_addresses,
            rule_counts: self.backend.rule_counts(),
        })
    }

    /// Counts ports with a Local traffic policy and no local endpoints.
    fn count_without_local(&mut self, services: &[(Key, Vec<Routed>)]) {
        for (key, ports) in services {
            let count = |has: fn(&Routed) -> bool| {
                ports.iter().filter(|routed| routed.has_endpoints && !has(routed)).count()
            };
            match (count(Routed::has_internal_endpoints), count(Routed::has_external_endpoints)) {
                (0, 0) => drop(self.without_local.remove(key)),
                some => drop(self.without_local.insert(key.clone(), some)),
            }
        }
    }

    /// Deletes the conntrack entries of stale flows. Returns their number, and the time it took.
    fn delete_stale_flows(&mut self, frontends: &Frontends) -> Option<(usize, Duration)> {
        if frontends.is_empty() {
            return None;
        }
        let started = Instant::now();
        let deleted = self.conntrack.flows(self.ipv4).and_then(|flows| {
            let stale: Vec<_> = flows.iter().filter(|flow| frontends.is_stale(flow)).collect();
            stale.iter().try_for_each(|flow| self.conntrack.delete(flow))?;
            Ok(stale.len())
        });
        match deleted {
            Ok(count) => Some((count, started.elapsed())),
            Err(err) => {
                tracing::warn!(ipv4 = self.ipv4, %err, "cannot delete stale conntrack flows");
                None
            }
        }
    }
}

fn base(config: &Config, inputs: &Inputs, ipv4: bool, namespace: Option<&Namespace>) -> Base {
    let node = inputs.node.facts.address(ipv4);
    let selected = if config.node_port_primary {
        NodePortAddresses::Within(node.into_iter().map(Cidr::single).collect())
    } else {
        NodePortAddresses::of(&config.node_port_addresses, ipv4)
    };
    let resolved = namespace.map(|namespace| selected.resolve(namespace)).transpose();
    let node_port_addresses = resolved.unwrap_or_else(|err| {
        tracing::warn!(%err, "cannot list node addresses");
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
