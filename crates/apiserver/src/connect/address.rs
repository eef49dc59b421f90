//! The addresses that requests may be proxied to: those of machines and pods, never loopback or link-local ones.
//!
//! A name is resolved once, here; the checked addresses are the ones that are dialed, so that a second DNS response changes
//! nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use corten_api::Status;

use crate::resolver;

/// True if requests may be proxied to an address. As upstream, global unicast addresses; an IPv4 address in an IPv6 one is
/// checked itself. Beyond upstream, that holds for every way of embedding.
pub(crate) fn is_proxyable(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_global_unicast_v4(address),
        IpAddr::V6(address) => {
            !address.is_loopback()
                && !address.is_unspecified()
                && !address.is_multicast()
                && !address.is_unicast_link_local()
                && embedded(address).is_none_or(is_global_unicast_v4)
        }
    }
}

fn is_global_unicast_v4(address: Ipv4Addr) -> bool {
    !address.is_loopback()
        && !address.is_unspecified()
        && !address.is_multicast()
        && !address.is_link_local()
        && !address.is_broadcast()
}

/// The IPv4 address that an IPv6 one is translated to or tunnelled to: compatible (RFC 4291), NAT64 (RFC 6052), translated
/// (RFC 2765) and 6to4 (RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0) | (0x64, 0xff9b, 0, 0, 0, 0) | (0, 0, 0, 0, 0xffff, 0) => Some(of(g, h)),
        (0x2002, high, low, ..) => Some(of(high, low)),
        _ => None,
    }
}

/// The addresses of a host, if requests may be proxied to all of them.
pub(super) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Status> {
    let found = resolver::lookup(host).await.map_err(|error| Status::bad_request(error.to_string()))?;
    let found: Vec<SocketAddr> = found.iter().map(|address| SocketAddr::new(*address, port)).collect();
    if found.is_empty() {
        return Err(Status::bad_request("no addresses for hostname"));
    }
    match found.iter().all(|address| is_proxyable(address.ip())) {
        true => Ok(found),
        false => Err(Status::bad_request("address not allowed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_not_proxied_to_local_addresses() {
        let table = [
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("::ffff:10.0.0.1", true),
            ("64:ff9b::a00:1", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:7f00:1", false),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("::ffff:0:127.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("::ffff:0.0.0.0", false),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("224.0.0.1", false),
            ("ff02::1", false),
            ("255.255.255.255", false),
        ];
        for (address, expected) in table {
            assert_eq!(is_proxyable(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn names_are_resolved_before_they_are_checked() {
        for host in ["localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let refused = resolve(host, 80).await.expect_err(host);
            assert_eq!((refused.code, refused.message.as_str()), (400, "address not allowed"), "{host}");
        }
        assert_eq!(resolve("192.0.2.1", 80).await.unwrap(), ["192.0.2.1:80".parse().unwrap()]);
    }
}
