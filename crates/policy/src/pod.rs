//! Pods as far as policies need them.

use std::net::IpAddr;

use corten_api::{Map, Str, Value, meta};
use corten_net::Protocol;

use crate::policy::protocol;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    pub node: Str,
    pub labels: Map,
    pub addresses: Vec<IpAddr>,
    /// The named ports.
    pub ports: Vec<NamedPort>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPort {
    pub name: Str,
    pub protocol: Protocol,
    pub number: u16,
}

impl Pod {
    /// Parses a pod; `None` for pods in the node's network, which cannot be distinguished from the node, and for terminated
    /// pods, which have no address any more.
    pub fn of(object: &Value) -> Option<Pod> {
        let ended = matches!(object.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
        if ended || object.bool_at(&["spec", "hostNetwork"]) == Some(true) {
            return None;
        }
        Some(Pod {
            node: Str::new(object.str_at(&["spec", "nodeName"]).unwrap_or_default()),
            labels: meta::labels(object).cloned().unwrap_or_default(),
            addresses: addresses(object),
            ports: ports(object),
        })
    }
}

fn addresses(object: &Value) -> Vec<IpAddr> {
    let all = object.items_at(&["status", "podIPs"]).iter();
    let all: Vec<IpAddr> = all.filter_map(|one| one.str_at(&["ip"])?.parse().ok()).collect();
    if all.is_empty() {
        object.str_at(&["status", "podIP"]).and_then(|ip| ip.parse().ok()).into_iter().collect()
    } else {
        all
    }
}

/// The named ports of containers and of sidecars.
fn ports(object: &Value) -> Vec<NamedPort> {
    let init = object.items_at(&["spec", "initContainers"]).iter();
    let sidecars = init.filter(|container| container.str_at(&["restartPolicy"]) == Some("Always"));
    let containers = object.items_at(&["spec", "containers"]).iter().chain(sidecars);
    let read = |port: &Value| {
        Some(NamedPort {
            name: port.str_at(&["name"]).filter(|name| !name.is_empty())?.into(),
            protocol: protocol(port.str_at(&["protocol"]))?,
            number: port.int_at(&["containerPort"])?.try_into().ok()?,
        })
    };
    containers.flat_map(|container| container.items_at(&["ports"])).filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn terminated_pods_and_pods_in_the_nodes_network_are_ignored() {
        let of = |spec: Value, status: Value| Pod::of(&value!({"spec": (spec), "status": (status)}));
        assert_eq!(of(value!({"hostNetwork": true}), value!({"podIP": "10.0.0.1"})), None);
        assert_eq!(of(value!({}), value!({"phase": "Succeeded", "podIP": "10.0.0.1"})), None);
        let both = value!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]});
        let pod = of(value!({"nodeName": "n"}), both).unwrap();
        assert_eq!(pod.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!(pod.node, "n");
    }

    #[test]
    fn named_ports_are_those_of_containers_and_sidecars() {
        let pod = value!({"spec": {
            "containers": [{"ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]}],
            "initContainers": [
                {"ports": [{"containerPort": 1, "name": "once"}]},
                {"restartPolicy": "Always", "ports": [{"containerPort": 53, "name": "dns", "protocol": "UDP"}]},
            ],
        }});
        let ports = Pod::of(&pod).unwrap().ports;
        let seen: Vec<_> =
            ports.iter().map(|port| (port.name.as_str(), port.protocol, port.number)).collect();
        assert_eq!(seen, [("web", Protocol::Tcp, 80), ("dns", Protocol::Udp, 53)]);
    }
}
