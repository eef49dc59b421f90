//! The names of a port's chains and sets.

use std::net::SocketAddr;

use crate::names::hash;
use crate::service::PortName;

/// Shorter than the kernel's limit by the longest prefix.
const LONGEST: usize = 240;

pub(crate) fn cluster(port: &PortName) -> String {
    format!("service-{}", base(port))
}

pub(crate) fn local(port: &PortName) -> String {
    format!("local-{}", base(port))
}

pub(crate) fn external(port: &PortName) -> String {
    format!("external-{}", base(port))
}

pub(crate) fn firewall(port: &PortName) -> String {
    format!("firewall-{}", base(port))
}

pub(crate) fn endpoint(port: &PortName, endpoint: SocketAddr) -> String {
    format!("endpoint-{}", endpoint_base(port, endpoint))
}

/// The prefix of the sets of session affinity.
pub(crate) const AFFINITY: &str = "affinity-";

pub(crate) fn affinity(port: &PortName, endpoint: SocketAddr) -> String {
    format!("{AFFINITY}{}", endpoint_base(port, endpoint))
}

fn base(port: &PortName) -> String {
    hashed(&path(port))
}

fn endpoint_base(port: &PortName, endpoint: SocketAddr) -> String {
    // A chain's name has no colons.
    let address = endpoint.ip().to_string().replace(':', ".");
    hashed(&format!("{}__{address}/{}", path(port), endpoint.port()))
}

fn path(port: &PortName) -> String {
    let protocol = port.protocol.to_string().to_lowercase();
    format!("{}/{}/{protocol}/{}", port.service.namespace, port.service.name, port.port)
}

/// Prefixes a name with its hash, which keeps truncated and similar names distinct.
fn hashed(name: &str) -> String {
    let mut hashed = format!("{}-{name}", hash(name, 8));
    if hashed.len() > LONGEST {
        // Names of objects and addresses are ASCII.
        hashed.truncate(LONGEST - 3);
        hashed.push_str("...");
    }
    hashed
}

#[cfg(test)]
mod tests {
    use corten_client::Key;
    use corten_net::Protocol;

    use super::*;

    fn port(name: &str) -> PortName {
        PortName { service: Key::new("ns1", "svc1"), port: name.into(), protocol: Protocol::Tcp }
    }

    #[test]
    fn names_are_upstreams() {
        assert_eq!(cluster(&port("p80")), "service-ULMVA6XW-ns1/svc1/tcp/p80");
        assert_eq!(
            endpoint(&port("p80"), "10.180.0.1:80".parse().unwrap()),
            "endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80"
        );
        let six = affinity(&port("p80"), "[fd00::1]:80".parse().unwrap());
        assert!(six.ends_with("__fd00..1/80"), "{six}");
    }

    #[test]
    fn names_are_within_the_kernels_limit() {
        let long = PortName {
            service: Key::new("n".repeat(63), "s".repeat(63)),
            port: "p".repeat(63).into(),
            protocol: Protocol::Sctp,
        };
        let address = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().unwrap();
        let name = endpoint(&long, address);
        assert!(name.len() < 256 && name.ends_with("..."), "{name}");
    }
}
