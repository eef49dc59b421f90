//! Services whose endpoint is a server of the test, on an address of this machine that is not loopback, as EndpointSlices
//! require.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use serde_json::{Value, json};

/// An address of this machine that other machines could use. Nothing is sent to find it.
pub(crate) fn address() -> IpAddr {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket.connect(("192.0.2.1", 9)).expect("a route to another network");
    socket.local_addr().expect("its address").ip()
}

/// A Service without a selector, and the EndpointSlice with a server's address.
pub(crate) fn objects(server: SocketAddr, namespace: &str, name: &str) -> (Value, Value) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": server.port()}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": if server.is_ipv6() { "IPv6" } else { "IPv4" },
        "endpoints": [{"addresses": [server.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": server.port(), "protocol": "TCP"}],
    });
    (service, slice)
}
