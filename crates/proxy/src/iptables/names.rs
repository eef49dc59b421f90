//! The names of a port's chains.

use std::net::SocketAddr;

use crate::names::hash;
use crate::service::PortName;

/// The prefixes of Services' own chains.
const PREFIXES: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-FW-", "KUBE-EXT-"];

pub(crate) fn is_of_service(chain: &str) -> bool {
    PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

pub(crate) fn cluster(port: &PortName) -> String {
    format!("KUBE-SVC-{}", port_hash(port))
}

pub(crate) fn local(port: &PortName) -> String {
    format!("KUBE-SVL-{}", port_hash(port))
}

pub(crate) fn firewall(port: &PortName) -> String {
    format!("KUBE-FW-{}", port_hash(port))
}

pub(crate) fn external(port: &PortName) -> String {
    format!("KUBE-EXT-{}", port_hash(port))
}

pub(crate) fn endpoint(port: &PortName, endpoint: SocketAddr) -> String {
    format!("KUBE-SEP-{}", hash(&format!("{}{}{endpoint}", shown(port), protocol(port)), 16))
}

/// The port's name in comments: `namespace/name:port`.
pub(crate) fn shown(port: &PortName) -> String {
    let colon = if port.port.is_empty() { "" } else { ":" };
    format!("{}{colon}{}", port.service, port.port)
}

pub(crate) fn protocol(port: &PortName) -> String {
    port.protocol.to_string().to_lowercase()
}

fn port_hash(port: &PortName) -> String {
    hash(&format!("{}{}", shown(port), protocol(port)), 16)
}

#[cfg(test)]
mod tests {
    use corten_client::Key;
    use corten_net::Protocol;

    use super::*;

    #[test]
    fn names_are_upstreams() {
        let port = PortName { service: Key::new("ns1", "svc1"), port: "p80".into(), protocol: Protocol::Tcp };
        assert_eq!(cluster(&port), "KUBE-SVC-XPGD46QRK7WJZT7O");
        assert_eq!(external(&port), "KUBE-EXT-XPGD46QRK7WJZT7O");
        assert_eq!(endpoint(&port, "10.180.0.1:80".parse().unwrap()), "KUBE-SEP-SXIVWICOYRO3J4NJ");
        assert!(is_of_service("KUBE-SEP-X") && !is_of_service("KUBE-SERVICES"));
    }
}
