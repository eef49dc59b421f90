//! The cluster IPs that a write of a service allocates and releases.
//!
//! Decides from the old and the new service; the pool that is passed in knows the free addresses.

use std::net::IpAddr;

use corten_api::status::ErrorList;
use corten_api::{Status, Str, Value};

use super::addressing::Addressing;
use super::cidr::{Cidr, Family};

/// A failure to allocate an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("range is full")]
    Full,
    #[error("provided IP is already allocated")]
    Allocated,
    #[error("the provided network does not match the current range")]
    MismatchedNetwork,
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")]
    NotInRange { address: IpAddr, range: Cidr },
}

/// The source of addresses.
pub(super) trait Pool {
    fn take_any(&mut self, family: Family) -> Result<IpAddr, AddressError>;
    fn take(&mut self, address: IpAddr) -> Result<(), AddressError>;
}

/// Parses an address in any form that may be stored.
fn parse(ip: &str) -> Option<IpAddr> {
    corten_registry::parse_address(ip).map(|address| address.to_canonical())
}

/// Allocates the addresses of a new service, or of one that had none.
pub(super) fn take(service: &mut Addressing, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    if service.is_external_name() || service.is_headless() {
        return Ok(());
    }
    service.cluster_ips.resize(service.cluster_ips.len().max(service.families.len()), Str::default());
    for place in 0..service.families.len() {
        take_one(service, place, name, pool)?;
    }
    Ok(())
}

/// Allocates the new addresses of an updated service, and returns those to release.
pub(super) fn change(
    service: &mut Addressing,
    old: &Addressing,
    name: &str,
    pool: &mut dyn Pool,
) -> Result<Vec<IpAddr>, Status> {
    if service.stays_as_preferred(old) {
        return Ok(Vec::new());
    }
    if old.is_external_name() && !service.is_external_name() {
        take(service, name, pool)?;
        return Ok(Vec::new());
    }
    if old.cluster_ips.first().is_some_and(|ip| ip == super::addressing::NONE) {
        return Ok(Vec::new());
    }
    if service.is_external_name() {
        return Ok(held(old));
    }
    match (old.families.len(), service.families.len()) {
        (1, 2) => {
            service.cluster_ips.resize(2, Str::default());
            take_one(service, 1, name, pool)?;
            Ok(Vec::new())
        }
        (2, 1) => Ok(old.cluster_ips.get(1).and_then(|ip| parse(ip)).into_iter().collect()),
        _ => Ok(Vec::new()),
    }
}

/// The addresses a service holds.
pub(super) fn held(service: &Addressing) -> Vec<IpAddr> {
    if service.is_external_name() {
        return Vec::new();
    }
    service.cluster_ips.iter().filter_map(|ip| parse(ip)).collect()
}

/// Allocates one address: the one that the service names, or any.
fn take_one(service: &mut Addressing, place: usize, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    let Some(family) = service.families.get(place).and_then(|family| Family::named(family)) else {
        return Ok(());
    };
    let asked = service.cluster_ips[place].clone();
    if asked.is_empty() {
        let address = pool.take_any(family).map_err(|error| match error {
            AddressError::Full => {
                Status::internal(format!("failed to allocate a serviceIP for Service {name:?}: {error}"))
            }
            error => invalid(service, name, format!("failed to allocate IP: {error}")),
        })?;
        service.cluster_ips[place] = address.to_string().into();
    } else {
        let address =
            parse(&asked).ok_or_else(|| Status::internal(format!("failed to parse service IP {asked:?}")))?;
        pool.take(address)
            .map_err(|error| invalid(service, name, format!("failed to allocate IP {asked}: {error}")))?;
    }
    if place == 0 {
        service.cluster_ip = service.cluster_ips[0].clone();
    }
    Ok(())
}

fn invalid(service: &Addressing, name: &str, why: String) -> Status {
    let shown: Value = service.shown_ips();
    let mut errors = ErrorList::new();
    errors.invalid("spec.clusterIPs", &shown, why);
    Status::invalid("", "Service", name, &errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that allocates `.1`, `.2`, … and refuses addresses that end in `9`.
    #[derive(Default)]
    struct Counting {
        given: Vec<String>,
        full: bool,
    }

    impl Pool for Counting {
        fn take_any(&mut self, family: Family) -> Result<IpAddr, AddressError> {
            if self.full {
                return Err(AddressError::Full);
            }
            let next = self.given.len() + 1;
            let text = if family == Family::V4 { format!("10.0.0.{next}") } else { format!("fd00::{next}") };
            self.given.push(text.clone());
            Ok(text.parse().unwrap())
        }

        fn take(&mut self, address: IpAddr) -> Result<(), AddressError> {
            if address.to_string().ends_with('9') {
                return Err(AddressError::Allocated);
            }
            self.given.push(format!("!{address}"));
            Ok(())
        }
    }

    /// `type ips families`.
    fn service(text: &str) -> Addressing {
        let parts: Vec<&str> = text.split(' ').collect();
        let list =
            |part: &str| -> Vec<Str> { part.split(',').filter(|item| *item != "-").map(Str::new).collect() };
        let cluster_ips = list(parts[1]);
        Addressing {
            kind: parts[0].into(),
            cluster_ip: cluster_ips.first().cloned().unwrap_or_default(),
            cluster_ips,
            families: list(&parts[2].replace('4', "IPv4").replace('6', "IPv6")),
            ..Addressing::default()
        }
    }

    #[test]
    fn new_services() {
        for (given, expected, taken) in [
            ("ClusterIP - 4", "ClusterIP 10.0.0.1 4", &["10.0.0.1"][..]),
            ("ClusterIP - 6,4", "ClusterIP fd00::1,10.0.0.2 6,4", &["fd00::1", "10.0.0.2"]),
            ("NodePort 10.0.0.5 4,6", "NodePort 10.0.0.5,fd00::2 4,6", &["!10.0.0.5", "fd00::2"]),
            ("ClusterIP None 4", "ClusterIP None 4", &[]),
            ("ExternalName - -", "ExternalName - -", &[]),
        ] {
            let (mut found, mut pool) = (service(given), Counting::default());
            take(&mut found, "s", &mut pool).unwrap();
            assert_eq!(found, service(expected), "{given}");
            assert_eq!(pool.given, taken, "{given}");
        }
        let refused = take(&mut service("ClusterIP 10.0.0.9 4"), "s", &mut Counting::default()).unwrap_err();
        assert_eq!(
            refused.message,
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
        );
        let mut full = Counting { full: true, ..Counting::default() };
        let refused = take(&mut service("ClusterIP - 4"), "s", &mut full).unwrap_err();
        assert_eq!(
            refused.message,
            "Internal error occurred: failed to allocate a serviceIP for Service \"s\": range is full"
        );
    }

    #[test]
    fn updates() {
        for (old, given, expected, taken, released) in [
            ("ExternalName - -", "ClusterIP - 4", "ClusterIP 10.0.0.1 4", &["10.0.0.1"][..], &[][..]),
            ("ClusterIP 10.0.0.7 4", "ExternalName - -", "ExternalName - -", &[], &["10.0.0.7"]),
            (
                "ClusterIP 10.0.0.7,fd00::7 4,6",
                "ExternalName - -",
                "ExternalName - -",
                &[],
                &["10.0.0.7", "fd00::7"],
            ),
            (
                "ClusterIP 10.0.0.7 4",
                "ClusterIP 10.0.0.7 4,6",
                "ClusterIP 10.0.0.7,fd00::1 4,6",
                &["fd00::1"],
                &[],
            ),
            (
                "ClusterIP 10.0.0.7 4",
                "ClusterIP 10.0.0.7,fd00::5 4,6",
                "ClusterIP 10.0.0.7,fd00::5 4,6",
                &["!fd00::5"],
                &[],
            ),
            (
                "ClusterIP 10.0.0.7,fd00::7 4,6",
                "ClusterIP 10.0.0.7 4",
                "ClusterIP 10.0.0.7 4",
                &[],
                &["fd00::7"],
            ),
            ("ClusterIP 10.0.0.7 4", "NodePort 10.0.0.7 4", "NodePort 10.0.0.7 4", &[], &[]),
            ("ClusterIP None 4", "ClusterIP None 4,6", "ClusterIP None 4,6", &[], &[]),
        ] {
            let (mut found, mut pool) = (service(given), Counting::default());
            let gone = change(&mut found, &service(old), "s", &mut pool).unwrap();
            assert_eq!(found, service(expected), "{old} → {given}");
            assert_eq!(pool.given, taken, "{old} → {given}");
            let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
            assert_eq!(gone, released, "{old} → {given}");
        }
    }
}
