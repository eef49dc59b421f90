//! The addresses and names of a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use anyhow::bail;
use corten_pki::Sans;

use super::Args;

/// The address of this server for pods and nodes; none if this machine has no network.
pub(super) fn endpoint_address(args: &Args) -> anyhow::Result<Option<IpAddr>> {
    match args.advertise_address {
        Some(address) if address.is_loopback() || address.is_unspecified() => {
            bail!("--advertise-address: pods cannot reach {address}; give an address of this machine")
        }
        Some(address) => Ok(Some(address)),
        None if !args.bind_address.is_unspecified() && !args.bind_address.is_loopback() => {
            Ok(Some(args.bind_address))
        }
        None => Ok(outward_address(args.service_cluster_ip_range.first_address().is_ipv6())),
    }
}

/// The source address of packets by the default route. Nothing is sent: connecting a UDP socket is enough for the
/// kernel to choose an address.
pub(crate) fn outward_address(ipv6: bool) -> Option<IpAddr> {
    let elsewhere: SocketAddr = if ipv6 {
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()
    } else {
        (Ipv4Addr::new(192, 0, 2, 1), 9).into()
    };
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

pub(super) fn names_of_this_machine(args: &Args) -> Sans {
    let service = args.service_cluster_ip_range.first_address();
    let mut sans = Sans::apiserver(service).with_address(args.bind_address);
    // An address that cannot be advertised is rejected later, with the reason.
    if let Ok(Some(address)) = endpoint_address(args) {
        sans = sans.with_address(address);
    }
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        // A host name that no certificate can hold does not prevent the start.
        sans = sans.clone().with_host(name.trim()).unwrap_or(sans);
    }
    // The hosts were checked when the flags were parsed.
    args.tls_san.iter().fold(sans, |sans, host| sans.clone().with_host(host).unwrap_or(sans))
}

/// A host that a certificate can hold.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    Sans::default().with_host(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
