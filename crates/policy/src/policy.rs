//! NetworkPolicies: the pods they select, and the traffic they allow.

use std::fmt;

use corten_api::selector::LabelSelector;
use corten_api::{Str, Value};
use corten_net::{Cidr, Protocol};

/// The direction of a connection, as the selected pod sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Ingress,
    Egress,
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub pods: LabelSelector,
    /// `None` if the policy does not apply to this direction; an empty list allows nothing.
    pub ingress: Option<Vec<Allowed>>,
    pub egress: Option<Vec<Allowed>>,
}

/// The traffic that one rule allows: any of the peers at any of the ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// `None` is every peer.
    pub peers: Option<Vec<Peer>>,
    /// `None` is every port of every protocol.
    pub ports: Option<Vec<Port>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Pods of the selected namespaces, or of the policy's own.
    Pods {
        pods: LabelSelector,
        namespaces: Option<LabelSelector>,
    },
    Block {
        network: Cidr,
        except: Vec<Cidr>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub protocol: Protocol,
    pub ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    Any,
    Numbers(u16, u16),
    /// The port that a pod has under this name.
    Named(Str),
}

impl Policy {
    /// Parses an object. Invalid parts allow nothing.
    pub fn of(object: &Value) -> Policy {
        let none = Value::Null;
        let spec = object.get("spec").unwrap_or(&none);
        let types: Vec<&str> = spec.items_at(&["policyTypes"]).iter().filter_map(Value::as_str).collect();
        let has_egress = !spec.items_at(&["egress"]).is_empty();
        let is_of = |direction: &str, unless_said: bool| {
            if types.is_empty() { unless_said } else { types.contains(&direction) }
        };
        Policy {
            pods: selector(spec.get("podSelector")),
            ingress: is_of("Ingress", true).then(|| rules(spec, "ingress", "from")),
            egress: is_of("Egress", has_egress).then(|| rules(spec, "egress", "to")),
        }
    }

    pub fn allows(&self, direction: Direction) -> Option<&[Allowed]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }
}

fn rules(spec: &Value, list: &str, peers: &str) -> Vec<Allowed> {
    spec.items_at(&[list]).iter().map(|rule| allowed(rule, peers)).collect()
}

fn allowed(rule: &Value, peers: &str) -> Allowed {
    let (peers, ports) = (rule.items_at(&[peers]), rule.items_at(&["ports"]));
    Allowed {
        peers: (!peers.is_empty()).then(|| peers.iter().filter_map(peer).collect()),
        ports: (!ports.is_empty()).then(|| ports.iter().filter_map(port).collect()),
    }
}

fn peer(peer: &Value) -> Option<Peer> {
    let present = |key: &str| peer.get(key).filter(|value| !value.is_null());
    if let Some(block) = present("ipBlock") {
        let except = block.items_at(&["except"]).iter();
        return Some(Peer::Block {
            network: block.str_at(&["cidr"])?.parse::<Cidr>().ok()?.network(),
            except: except.map(|text| text.as_str()?.parse().ok()).collect::<Option<_>>()?,
        });
    }
    let namespaces = present("namespaceSelector").map(|selected| selector(Some(selected)));
    let pods = match present("podSelector") {
        Some(selected) => selector(Some(selected)),
        None if namespaces.is_some() => LabelSelector::everything(),
        None => return None,
    };
    Some(Peer::Pods { pods, namespaces })
}

fn port(port: &Value) -> Option<Port> {
    let protocol = protocol(port.str_at(&["protocol"]))?;
    let ports = match port.get("port").filter(|value| !value.is_null()) {
        None => Ports::Any,
        Some(Value::Int(first)) => {
            let last = port.int_at(&["endPort"]).unwrap_or(*first);
            Ports::Numbers((*first).try_into().ok()?, last.try_into().ok()?)
        }
        Some(name) => Ports::Named(Str::new(name.as_str()?)),
    };
    Some(Port { protocol, ports })
}

/// Parses a protocol; `None` for unknown ones.
pub(crate) fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name.unwrap_or("TCP") {
        "" | "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        _ => None,
    }
}

fn selector(selector: Option<&Value>) -> LabelSelector {
    LabelSelector::from_object(selector).unwrap_or(LabelSelector::nothing())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_policy_has_its_declared_or_implied_directions() {
        let of = |spec: Value| {
            let policy = Policy::of(&value!({"spec": (spec)}));
            (policy.ingress.is_some(), policy.egress.is_some())
        };
        assert_eq!(of(value!({"podSelector": {}})), (true, false));
        assert_eq!(of(value!({"podSelector": {}, "egress": [{}]})), (true, true));
        assert_eq!(of(value!({"podSelector": {}, "egress": [{}], "policyTypes": ["Egress"]})), (false, true));
        assert_eq!(of(value!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})), (true, true));
    }

    #[test]
    fn empty_peers_allow_all_and_no_rules_allow_nothing() {
        let policy =
            Policy::of(&value!({"spec": {"podSelector": {}, "ingress": [{"from": [], "ports": []}]}}));
        assert_eq!(policy.ingress, Some(vec![Allowed { peers: None, ports: None }]));
        let policy = Policy::of(&value!({"spec": {"podSelector": {}}}));
        assert_eq!(policy.ingress, Some(Vec::new()));
    }

    #[test]
    fn invalid_parts_allow_nothing() {
        let rule = value!({"from": [{"ipBlock": {"cidr": "everywhere"}}, {}], "ports": [{"protocol": "X"}]});
        let allowed = allowed(&rule, "from");
        assert_eq!(allowed, Allowed { peers: Some(Vec::new()), ports: Some(Vec::new()) });
    }

    #[test]
    fn ports_are_all_a_number_a_range_or_a_name() {
        let read = |object: Value| port(&object).map(|port| (port.protocol, port.ports));
        assert_eq!(read(value!({"protocol": "UDP"})), Some((Protocol::Udp, Ports::Any)));
        assert_eq!(read(value!({"port": 80})), Some((Protocol::Tcp, Ports::Numbers(80, 80))));
        let range = value!({"port": 32000, "endPort": 32768, "protocol": "SCTP"});
        assert_eq!(read(range), Some((Protocol::Sctp, Ports::Numbers(32000, 32768))));
        assert_eq!(read(value!({"port": "web"})), Some((Protocol::Tcp, Ports::Named("web".into()))));
    }
}
