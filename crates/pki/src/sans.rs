//! The names and addresses a serving certificate is valid for. Kept sorted and without duplicates, so that
//! two sets are equal exactly when the certificates would be.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls_pki_types::DnsName;

use crate::{Error, Result};

/// Subject alternative names: host names and IP addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sans {
    pub(crate) names: BTreeSet<String>,
    pub(crate) addresses: BTreeSet<IpAddr>,
}

impl Sans {
    /// The names of every API server: the `kubernetes` service under all its names, `localhost`, both
    /// loopback addresses, and `service_address` (the first address of the service range, `10.96.0.1`).
    pub fn apiserver(service_address: IpAddr) -> Sans {
        let names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ];
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), service_address];
        Sans { names: names.map(str::to_owned).into(), addresses: addresses.into() }
    }

    /// The DNS names, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    /// Adds a host: an IP address, with or without brackets, or a DNS name.
    pub fn with_host(mut self, host: &str) -> Result<Sans> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse() {
            return Ok(self.with_address(address));
        }
        if DnsName::try_from_str(host).is_err() {
            return Err(Error::InvalidName(host.to_owned()));
        }
        self.names.insert(host.trim_end_matches('.').to_ascii_lowercase());
        Ok(self)
    }

    /// Adds an address. `0.0.0.0` and `::` are left out: no client connects to them.
    pub fn with_address(mut self, address: IpAddr) -> Sans {
        if !address.is_unspecified() {
            self.addresses.insert(address.to_canonical());
        }
        self
    }
}
