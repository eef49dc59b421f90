//! The model of one node and one IP family: chains of clauses, and the sets they use. Pure.
//!
//! The first packet of a connection is checked: against the egress policies of its source, if that is an isolated pod of this
//! node, then against the ingress policies of its destination, if that is one. A pod is isolated in a direction by the
//! policies that select it for that direction; pods of the same policies share a chain, which jumps to each policy's chain in
//! turn and drops packets that none allows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::IpAddr;

use corten_client::Key;
use corten_net::{Cidr, Protocol};

use crate::inputs::Inputs;
use crate::names;
use crate::pod::{NamedPort, Pod};
use crate::policy::{Allowed, Direction, Peer, Policy, Port, Ports};

/// The variable contents of one family's table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The isolated pods of this node: their addresses, and the chain that checks their packets.
    pub egress: BTreeMap<IpAddr, String>,
    pub ingress: BTreeMap<IpAddr, String>,
    pub chains: BTreeMap<String, Chain>,
    pub addresses: BTreeMap<String, BTreeSet<IpAddr>>,
    pub endpoints: BTreeMap<String, BTreeSet<Endpoint>>,
}

/// A chain of clauses, for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub direction: Direction,
    pub clauses: Vec<Clause>,
}

/// The address, protocol and port of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
}

/// A verdict for connections that match a peer and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    pub who: Who,
    pub at: At,
    pub then: Then,
}

/// A match on the other side of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    Any,
    /// Addresses in a set.
    In(String),
    Within {
        network: Cidr,
        except: Vec<Cidr>,
    },
}

/// A match on the destination port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    Any,
    AnyOf(Protocol),
    Numbers(Protocol, u16, u16),
    /// Ports in a set, with their addresses.
    In(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// This direction is allowed.
    Allow,
    Ask(String),
    /// The calling chain continues.
    Leave,
    Drop,
}

/// The limit of exceptions in one rule of the kernel, which has at most 128 expressions.
const MAX_EXCEPTIONS: usize = 16;
/// The limit of pairs of ports and peers with a clause each.
const MAX_PAIRS: usize = 64;

/// Computes the model of a node.
pub fn model(inputs: &Inputs, node: &str, ipv4: bool) -> Model {
    let mut model = Model::default();
    for direction in [Direction::Egress, Direction::Ingress] {
        let mut used = BTreeSet::new();
        for (key, pod) in inputs.pods.iter().filter(|(_, pod)| pod.node == node) {
            let policies = isolating(inputs, direction, key, pod);
            let addresses = pod.addresses.iter().filter(|address| address.is_ipv4() == ipv4);
            let addresses: Vec<IpAddr> = addresses.copied().collect();
            if policies.is_empty() || addresses.is_empty() {
                continue;
            }
            let chain = names::isolated(direction, &policies);
            let isolated = match direction {
                Direction::Ingress => &mut model.ingress,
                Direction::Egress => &mut model.egress,
            };
            isolated.extend(addresses.into_iter().map(|address| (address, chain.clone())));
            model.chains.entry(chain).or_insert_with(|| shared(direction, &policies));
            used.extend(policies);
        }
        for key in used {
            let Some(policy) = inputs.policies.get(&key) else { continue };
            Writer { inputs, node, ipv4, direction, key: &key, policy, model: &mut model }.write();
        }
    }
    model
}

/// The policies that isolate a pod.
fn isolating(inputs: &Inputs, direction: Direction, key: &Key, pod: &Pod) -> Vec<Key> {
    let of_namespace = inputs.policies.iter().filter(|(policy, _)| policy.namespace == key.namespace);
    let isolating = of_namespace
        .filter(|(_, policy)| policy.allows(direction).is_some() && policy.pods.matches(&pod.labels));
    isolating.map(|(key, _)| key.clone()).collect()
}

/// The chain of pods that the same policies isolate.
fn shared(direction: Direction, policies: &[Key]) -> Chain {
    let asked = policies.iter().map(|policy| Then::Ask(names::policy(direction, policy)));
    let all = asked.chain([Then::Drop]);
    let clauses = all.map(|then| Clause { who: Who::Any, at: At::Any, then }).collect();
    Chain { direction, clauses }
}

/// Writes the chain of one policy.
struct Writer<'a> {
    inputs: &'a Inputs,
    node: &'a str,
    ipv4: bool,
    direction: Direction,
    key: &'a Key,
    policy: &'a Policy,
    model: &'a mut Model,
}

impl Writer<'_> {
    fn write(mut self) {
        let name = names::policy(self.direction, self.key);
        let mut clauses = Vec::new();
        for (n, allowed) in self.policy.allows(self.direction).unwrap_or_default().iter().enumerate() {
            let mut at = self.numbers(allowed);
            let named = self.named(&names::ports(&name, n), allowed);
            match self.direction {
                Direction::Ingress => at.extend(named),
                // The endpoint includes the peer's address.
                Direction::Egress => clauses.extend(named.map(|at| allow(Who::Any, at))),
            }
            if at.is_empty() {
                continue;
            }
            let who = self.who(&names::peers(&name, n), allowed);
            let who: Vec<(Who, Then)> =
                who.into_iter().enumerate().map(|(k, who)| self.judged(who, &name, (n, k))).collect();
            clauses.extend(self.each_at_each(at, who, &names::sides(&name, n)));
        }
        self.add_chain(name, clauses);
    }

    fn add_chain(&mut self, name: String, clauses: Vec<Clause>) {
        self.model.chains.insert(name, Chain { direction: self.direction, clauses });
    }

    /// The clause for one peer. A rule of the kernel has a limited number of expressions: many exceptions have a chain of their
    /// own, which returns at the first that matches.
    fn judged(&mut self, who: Who, policy: &str, place: (usize, usize)) -> (Who, Then) {
        match who {
            Who::Within { network, except } if except.len() > MAX_EXCEPTIONS => {
                let chain = names::exceptions(policy, place);
                let within = |network| Who::Within { network, except: Vec::new() };
                let excepted = except.into_iter().map(|except| Clause {
                    who: within(except),
                    at: At::Any,
                    then: Then::Leave,
                });
                let clauses = excepted.chain([allow(Who::Any, At::Any)]).collect();
                self.add_chain(chain.clone(), clauses);
                (within(network), Then::Ask(chain))
            }
            who => (who, Then::Allow),
        }
    }

    /// All peers at all ports: a clause for each pair if these are few, and else one for each port, which jumps to a chain with
    /// one for each peer. A policy may have tens of thousands of both.
    fn each_at_each(&mut self, at: Vec<At>, who: Vec<(Who, Then)>, sides: &str) -> Vec<Clause> {
        if at.len().saturating_mul(who.len()) <= MAX_PAIRS {
            let pair = |at: &At| {
                let at = at.clone();
                who.clone().into_iter().map(move |(who, then)| Clause { who, at: at.clone(), then })
            };
            return at.iter().flat_map(pair).collect();
        }
        let all = who.into_iter().map(|(who, then)| Clause { who, at: At::Any, then }).collect();
        self.add_chain(sides.to_owned(), all);
        at.into_iter().map(|at| Clause { who: Who::Any, at, then: Then::Ask(sides.to_owned()) }).collect()
    }

    /// The matches of a rule's peers: pods in one set, and address blocks.
    fn who(&mut self, set: &str, allowed: &Allowed) -> Vec<Who> {
        let Some(peers) = &allowed.peers else { return vec![Who::Any] };
        let pods = self.pods(peers);
        let addresses = pods.iter().flat_map(|(_, pod)| &pod.addresses).copied();
        let addresses: BTreeSet<IpAddr> =
            addresses.filter(|address| address.is_ipv4() == self.ipv4).collect();
        let mut who = Vec::new();
        if peers.iter().any(|peer| matches!(peer, Peer::Pods { .. })) {
            self.model.addresses.insert(set.to_owned(), addresses);
            who.push(Who::In(set.to_owned()));
        }
        who.extend(peers.iter().filter_map(|peer| match peer {
            Peer::Block { network, except } if network.is_ipv4() == self.ipv4 => {
                Some(Who::Within { network: *network, except: except.clone() })
            }
            _ => None,
        }));
        who
    }

    fn numbers(&self, allowed: &Allowed) -> Vec<At> {
        let Some(ports) = &allowed.ports else { return vec![At::Any] };
        ports.iter().filter_map(number).collect()
    }

    /// The match of a rule's named ports, which are in one set.
    fn named(&mut self, set: &str, allowed: &Allowed) -> Option<At> {
        let ports = allowed.ports.as_ref()?;
        if !ports.iter().any(|port| matches!(port.ports, Ports::Named(_))) {
            return None;
        }
        let endpoints = self.endpoints(allowed, ports);
        self.model.endpoints.insert(set.to_owned(), endpoints);
        Some(At::In(set.to_owned()))
    }

    /// The ports that destination pods have under the names.
    fn endpoints(&self, allowed: &Allowed, ports: &[Port]) -> BTreeSet<Endpoint> {
        let pods: Vec<(&Key, &Pod)> = match (self.direction, &allowed.peers) {
            (Direction::Egress, Some(peers)) => self.pods(peers),
            (Direction::Egress, None) => self.all_pods().collect(),
            (Direction::Ingress, _) => {
                let selected = |key: &Key, pod: &Pod| {
                    key.namespace == self.key.namespace
                        && pod.node == self.node
                        && self.policy.pods.matches(&pod.labels)
                };
                self.all_pods().filter(|(key, pod)| selected(key, pod)).collect()
            }
        };
        let named = |port| match port {
            &Port { protocol, ports: Ports::Named(ref name) } => Some((&**name, protocol)),
            _ => None,
        };
        let wanted: HashSet<(&str, Protocol)> = ports.iter().filter_map(named).collect();
        pods.into_iter().flat_map(|(_, pod)| self.endpoints_of(pod, &wanted)).collect()
    }

    fn endpoints_of(&self, pod: &Pod, wanted: &HashSet<(&str, Protocol)>) -> Vec<Endpoint> {
        let found = pod.ports.iter().filter(|port| wanted.contains(&(&*port.name, port.protocol)));
        let addresses = || pod.addresses.iter().filter(|address| address.is_ipv4() == self.ipv4);
        let endpoint = |port: &NamedPort, address: &IpAddr| Endpoint {
            address: *address,
            protocol: port.protocol,
            port: port.number,
        };
        found.flat_map(|port| addresses().map(move |address| endpoint(port, address))).collect()
    }

    fn pods(&self, peers: &[Peer]) -> Vec<(&Key, &Pod)> {
        let is_peer = |key: &Key, pod: &Pod| peers.iter().any(|peer| self.is(peer, key, pod));
        self.all_pods().filter(|(key, pod)| is_peer(key, pod)).collect()
    }

    fn all_pods(&self) -> impl Iterator<Item = (&Key, &Pod)> {
        self.inputs.pods.iter().map(|(key, pod)| (key, &**pod))
    }

    fn is(&self, peer: &Peer, key: &Key, pod: &Pod) -> bool {
        let Peer::Pods { pods, namespaces } = peer else { return false };
        let within = match namespaces {
            None => key.namespace == self.key.namespace,
            Some(selector) => {
                self.inputs.namespaces.get(&key.namespace).is_some_and(|labels| selector.matches(labels))
            }
        };
        within && pods.matches(&pod.labels)
    }
}

fn allow(who: Who, at: At) -> Clause {
    Clause { who, at, then: Then::Allow }
}

fn number(port: &Port) -> Option<At> {
    match port.ports {
        Ports::Any => Some(At::AnyOf(port.protocol)),
        Ports::Numbers(first, last) => Some(At::Numbers(port.protocol, first, last)),
        Ports::Named(_) => None,
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Any => {}
            Who::In(set) => write!(out, "@{set} ")?,
            Who::Within { network, except } if except.is_empty() => write!(out, "{network} ")?,
            Who::Within { network, except } => {
                let except: Vec<String> = except.iter().map(Cidr::to_string).collect();
                write!(out, "{network} but {} ", except.join(" "))?;
            }
        }
        match &self.at {
            At::Any => {}
            At::AnyOf(protocol) => write!(out, "{protocol} ")?,
            At::Numbers(protocol, first, last) if first == last => write!(out, "{protocol} {first} ")?,
            At::Numbers(protocol, first, last) => write!(out, "{protocol} {first}-{last} ")?,
            At::In(set) => write!(out, "at @{set} ")?,
        }
        match &self.then {
            Then::Allow => out.write_str("allow"),
            Then::Ask(chain) => write!(out, "ask {chain}"),
            Then::Leave => out.write_str("leave"),
            Then::Drop => out.write_str("drop"),
        }
    }
}

#[cfg(test)]
mod tests;
