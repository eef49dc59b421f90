//! Whether the addresses and families a client gave make enough sense to go on from.

use std::net::IpAddr;

use corten_api::Value;
use corten_api::status::ErrorList;

use super::addressing::{Addressing, NONE, family_of};
use super::cidr::Family;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Validation says the same again of what becomes of the service.
pub(super) fn check_given(service: &Addressing, old: Option<&Addressing>) -> Result<(), ErrorList> {
    let mut errors = ErrorList::new();
    check_pair(service, &mut errors);
    for (i, family) in service.families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if !FAMILIES.contains(&family.as_str()) {
            errors.not_supported(field.as_str(), &Value::from(family.clone()), &FAMILIES);
        }
        if service.families[..i].contains(family) {
            errors.duplicate(field, &Value::from(family.clone()));
        }
    }
    if !POLICIES.contains(&service.policy()) {
        errors.not_supported("spec.ipFamilyPolicy", &Value::from(service.policy()), &POLICIES);
    }
    if check_addresses(service, old, &mut errors) {
        check_stacks(service, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_pair(service: &Addressing, errors: &mut ErrorList) {
    let why = match (service.cluster_ip.as_str(), service.cluster_ips.first()) {
        ("", None) => return,
        ("", Some(_)) => "must be empty when `clusterIP` is not specified",
        (_, None) => return errors.required("spec.clusterIPs", ""),
        (single, Some(first)) if first == single => return,
        _ => "first value must match `clusterIP`",
    };
    errors.invalid("spec.clusterIPs", &service.shown_ips(), why);
}

/// Whether each address is one. What was taken once is taken again.
fn check_addresses(service: &Addressing, old: Option<&Addressing>, errors: &mut ErrorList) -> bool {
    let ips = &service.cluster_ips;
    let before = errors.0.len();
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip == NONE {
            if ips.len() > 1 {
                let why = "'None' must be the first and only value";
                errors.invalid("spec.clusterIPs", &service.shown_ips(), why);
            }
        } else if !old.is_some_and(|old| old.cluster_ips.contains(ip))
            && let Some(why) = wrong_with(ip)
        {
            errors.invalid(format!("spec.clusterIPs[{i}]"), &Value::from(ip.clone()), why);
        }
    }
    let valid = errors.0.len() == before;
    if ips.len() > 2 {
        errors.invalid("spec.clusterIPs", &service.shown_ips(), "may only hold up to 2 values");
    }
    valid
}

fn wrong_with(ip: &str) -> Option<&'static str> {
    match ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if parse(ip).is_some() => Some("must not have leading 0s"),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

fn check_stacks(service: &Addressing, errors: &mut ErrorList) {
    let ips = &service.cluster_ips;
    let is_v6 = |ip: &str| family_of(ip) == Family::V6;
    if ips.len() > 1 && (ips.iter().all(|ip| is_v6(ip)) || !ips.iter().any(|ip| is_v6(ip))) {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid("spec.clusterIPs", &service.shown_ips(), why);
    }
    if service.is_headless() {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(&service.families).enumerate() {
        if FAMILIES.contains(&family.as_str()) && family_of(ip).name() != family {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(format!("spec.clusterIPs[{i}]"), &Value::from(ip.clone()), why);
        }
    }
}

/// An address, also one with zeros before its numbers, as it may have been stored long ago.
pub(super) fn parse(ip: &str) -> Option<IpAddr> {
    if let Ok(address) = ip.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let octets: Option<Vec<u8>> = ip.split('.').map(|octet| octet.parse().ok()).collect();
    <[u8; 4]>::try_from(octets?).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, wrong) in [
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("1.2.3", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            ("x", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            assert_eq!(wrong_with(text), wrong, "{text}");
        }
        assert_eq!(parse("010.0.0.1"), parse("10.0.0.1"));
    }
}
