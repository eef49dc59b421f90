//! Brings the rules of all families up to date with what the API says: the one place where rules are changed.

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

use crate::backend::Backend;
use crate::base::{Base, LocalPods};
use crate::config::{Config, DetectLocal, Mode};
use crate::conntrack::Frontends;
use crate::inputs::Inputs;
use crate::iptables::kept::Count;
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
    /// Of each Service, how many ports have nobody on this node although they should.
    without_local: HashMap<Key, (usize, usize)>,
}

/// What came of it in one IP family.
#[derive(Debug)]
pub struct Synced {
    pub ipv4: bool,
    /// Everything was written, rather than what changed.
    pub was_full: bool,
    pub took: Duration,
    pub failed: bool,
    /// How many flows were forgotten, and how long it took, if any could have to be.
    pub forgotten: Option<(usize, Duration)>,
    /// How many ports stay on the node and have nobody there: for traffic from within the cluster, and from outside.
    pub without_local: (usize, usize),
    /// At which ports load balancers ask for the Services that changed, and how many endpoints are ready here.
    pub checks: Vec<(Key, Option<(u16, usize)>)>,
    /// Where node ports are open; `None` is everywhere.
    pub node_port_addresses: Option<Vec<IpAddr>>,
    /// How many rules of iptables there are, where that is what they are.
    pub count: Option<Count>,
}

/// What came of it in all, and when the changes began that it was about.
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

/// What is to be so in one family.
struct Observed {
    base: Base,
    services: Vec<(Key, Vec<Routed>)>,
    checks: Vec<(Key, Option<(u16, usize)>)>,
}

impl Engine {
    /// Nothing is written yet: what an earlier process left goes on. A machine that knows one IP family only will do.
    pub fn open(config: Config, namespace: Namespace) -> io::Result<Engine> {
        let (mut families, mut refusal) = (Vec::new(), None);
        for ipv4 in [true, false] {
            match Family::open(&config, &namespace, ipv4) {
                Ok(family) => families.push(family),
                Err(error) => {
                    tracing::warn!(ipv4, %error, "services of one IP family are not proxied");
                    refusal = Some(error);
                }
            }
        }
        match refusal {
            Some(error) if families.is_empty() => Err(error),
            _ => Ok(Engine { config, namespace, families }),
        }
    }

    /// Writes what changed since the last time; what came of it where there was something to do.
    pub fn sync(&mut self, inputs: &Mutex<Inputs>) -> Outcome {
        let (observed, triggers) = self.observe(inputs);
        let families = self.families.iter_mut().zip(observed);
        let families = families.filter_map(|(family, observed)| family.sync(observed)).collect();
        Outcome { families, triggers }
    }

    /// What holds for all Services, and what some have become, for each family.
    fn observe(&self, inputs: &Mutex<Inputs>) -> (Vec<Observed>, Vec<Timestamp>) {
        let mut inputs = inputs.lock();
        let changed = inputs.take_changed();
        let node = inputs.node.facts.clone();
        let observed = self.families.iter().map(|family| {
            let ipv4 = family.ipv4;
            let services = || changed.services.iter();
            Observed {
                base: base(&self.config, &inputs, ipv4, Some(&self.namespace)),
                services: services().map(|key| (key.clone(), inputs.routed(key, ipv4, &node))).collect(),
                checks: services().map(|key| (key.clone(), inputs.health(key, ipv4, &node))).collect(),
            }
        });
        (observed.collect(), changed.triggers)
    }

    /// Looks whether somebody removed rules; whether there is something to write anew for that.
    pub fn inspect(&mut self) -> bool {
        let damaged = self.families.iter_mut().filter(|family| !family.backend.is_full());
        let damaged = damaged.filter_map(|family| (!family.backend.is_intact()).then_some(family));
        damaged.map(|family| family.backend.distrust()).count() > 0
    }

    /// Everything is written anew the next time.
    pub fn distrust(&mut self) {
        self.families.iter_mut().for_each(|family| family.backend.distrust());
    }

    /// Whether there is something to remove that nothing leads to any more.
    pub fn has_stale(&self) -> bool {
        self.families.iter().any(|family| family.backend.has_stale())
    }

    /// Removes it, where there is any. To be called a while after the last change.
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

    fn sync(&mut self, observed: Observed) -> Option<Synced> {
        let Observed { base, services, checks } = observed;
        let node_port_addresses = base.node_port_addresses.clone();
        self.backend.set_base(base);
        let was_full = self.backend.is_full();
        if services.is_empty() && !was_full {
            return None;
        }
        let started = Instant::now();
        let frontends = Frontends::of(services.iter().flat_map(|(_, ports)| ports));
        self.count(&services);
        let written = self.backend.change(services);
        let took = started.elapsed();
        let failed = written.is_err();
        if let Err(error) = written {
            tracing::warn!(ipv4 = self.ipv4, %error, "rules could not be written");
        }
        let forgotten = if failed { None } else { self.forget(&frontends) };
        let sum = |(a, b): (usize, usize), (c, d): &(usize, usize)| (a + c, b + d);
        let without_local = self.without_local.values().fold((0, 0), sum);
        Some(Synced {
            ipv4: self.ipv4,
            was_full,
            took,
            failed,
            forgotten,
            without_local,
            checks,
            node_port_addresses,
            count: self.backend.count(),
        })
    }

    /// Takes note of ports that have nobody on this node although they should.
    fn count(&mut self, services: &[(Key, Vec<Routed>)]) {
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

    /// Forgets flows that lead where nobody serves any more; how many, and how long it took.
    fn forget(&mut self, frontends: &Frontends) -> Option<(usize, Duration)> {
        if frontends.is_empty() {
            return None;
        }
        let started = Instant::now();
        let forgotten = self.conntrack.flows(self.ipv4).and_then(|flows| {
            let stale: Vec<_> = flows.iter().filter(|flow| frontends.is_stale(flow)).collect();
            stale.iter().try_for_each(|flow| self.conntrack.forget(flow))?;
            Ok(stale.len())
        });
        match forgotten {
            Ok(count) => Some((count, started.elapsed())),
            Err(error) => {
                tracing::warn!(ipv4 = self.ipv4, %error, "stale flows could not be forgotten");
                None
            }
        }
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
