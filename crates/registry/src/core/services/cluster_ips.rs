//! The cluster IPs of a service and their families: at most one of each family; the
//! first is immutable.

use std::net::IpAddr;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, set_of};

use super::service_type;
use crate::validation::fields::{any_of, part};
use crate::validation::ip::{legacy_ip, parse_sloppy};
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, text};

const SPEC: Field<'static> = Field::new("spec");
const NONE: &str = "None";
const KEPT: &str = "may not change once set";

/// Returns true for a service without a cluster IP: its DNS name resolves to its pods.
pub(super) fn is_headless(service: &Value) -> bool {
    matches!(service.items_at(&["spec", "clusterIPs"]), [only] if only.as_str() == Some(NONE))
}

fn is_external(service: &Value) -> bool {
    service_type(service) == "ExternalName"
}

/// Checks that addresses, families and policy are consistent. If not, nothing else is validated:
/// addresses are allocated first.
pub fn fit(service: &Value, old: Option<&Value>, errors: &mut ErrorList) -> bool {
    if is_external(service) {
        return true;
    }
    let before = errors.0.len();
    let spec = part(service, "spec");
    validate_pair(spec, errors);
    validate_families(spec, errors);
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    any_of(spec, "ipFamilyPolicy", &policies, &SPEC, errors);
    if validate_addresses(spec, old, errors) {
        validate_stacks(service, errors);
    }
    errors.0.len() == before
}

/// The first of several addresses is also in the single field.
fn validate_pair(spec: &Value, errors: &mut ErrorList) {
    let (ips, at) = (list(spec, "clusterIPs"), SPEC.child("clusterIPs"));
    match (text(spec, "clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.invalid(at, part(spec, "clusterIPs"), why);
        }
        (_, None) => errors.required(at, ""),
        (single, Some(first)) if first.as_str() == Some(single) => {}
        (_, Some(_)) => {
            errors.invalid(at, part(spec, "clusterIPs"), "first value must match `clusterIP`");
        }
    }
}

fn validate_families(spec: &Value, errors: &mut ErrorList) {
    let (families, at) = (list(spec, "ipFamilies"), SPEC.child("ipFamilies"));
    let repeats = Repeats::of(families, ByContent);
    for (i, family) in families.iter().enumerate() {
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            errors.not_supported(at.index(i), family, &["IPv4", "IPv6"]);
        }
        if repeats.at(i) {
            errors.duplicate(at.index(i), family);
        }
    }
}

/// Checks each address. Stored ones are not validated again.
fn validate_addresses(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) -> bool {
    let (ips, at) = (list(spec, "clusterIPs"), SPEC.child("clusterIPs"));
    let known = set_of(old.map_or(&[][..], |old| old.items_at(&["spec", "clusterIPs"])));
    let before = errors.0.len();
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip.as_str() == Some(NONE) {
            if ips.len() > 1 {
                let why = "'None' must be the first and only value";
                errors.invalid(at, part(spec, "clusterIPs"), why);
            }
        } else if !known.contains(&ByContent(ip)) {
            legacy_ip(ip.as_str().unwrap_or_default(), &at.index(i), errors);
        }
    }
    let valid = errors.0.len() == before;
    if ips.len() > 2 {
        errors.invalid(at, part(spec, "clusterIPs"), "may only hold up to 2 values");
    }
    valid
}

/// One address of each family, in the order of the families.
fn validate_stacks(service: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(service, "spec"), SPEC.child("clusterIPs"));
    let ips = list(spec, "clusterIPs");
    let is_v6 = |ip: &Value| {
        let address = ip.as_str().and_then(parse_sloppy).map(|address| address.to_canonical());
        address.as_ref().is_some_and(IpAddr::is_ipv6)
    };
    let both = ips.iter().any(is_v6) && !ips.iter().all(is_v6);
    if ips.len() > 1 && !both {
        let why = "may specify no more than one IP for each IP family";
        errors.invalid(at, part(spec, "clusterIPs"), why);
    }
    if is_headless(service) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(list(spec, "ipFamilies")).enumerate() {
        let family = family.as_str().unwrap_or_default();
        if (family == "IPv4" && is_v6(ip)) || (family == "IPv6" && !is_v6(ip)) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(at.index(i), ip, why);
        }
    }
}

/// A second address may be added and removed; the first is kept.
pub(super) fn validate_update(service: &Value, old: &Value, errors: &mut ErrorList) {
    if is_external(service) || is_external(old) {
        return;
    }
    let (headless, was_headless) = (is_headless(service), is_headless(old));
    if !(headless && was_headless) {
        validate_new_addresses(part(service, "spec"), part(old, "spec"), errors);
    }
    if !headless && !was_headless {
        validate_new_families(part(service, "spec"), part(old, "spec"), errors);
    }
}

fn validate_new_addresses(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let (ips, old_ips) = (list(spec, "clusterIPs"), list(old, "clusterIPs"));
    let (at, shown) = (SPEC.child("clusterIPs"), part(spec, "clusterIPs"));
    if ips.len() == old_ips.len() {
        for i in (0..ips.len()).filter(|i| ips.get(*i) != old_ips.get(*i)) {
            errors.invalid(at.index(i), shown, KEPT);
        }
        return;
    }
    if ips.is_empty() {
        errors.invalid(at.index(0), shown, "primary clusterIP can not be unset");
    } else if !old_ips.is_empty() && ips.first() != old_ips.first() {
        errors.invalid(at.index(0), shown, KEPT);
    }
    if ips.len() == 1 && old_ips.len() > 1 {
        validate_release(spec, "must be set to 'SingleStack' when releasing the secondary clusterIP", errors);
    }
}

fn validate_new_families(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let (families, old_families) = (list(spec, "ipFamilies"), list(old, "ipFamilies"));
    let (at, shown) = (SPEC.child("ipFamilies"), part(spec, "ipFamilies"));
    if families.len() == old_families.len() {
        for _ in families.iter().zip(old_families).filter(|(new, old)| new != old) {
            errors.invalid(at.index(0), shown, KEPT);
        }
        return;
    }
    let released = families.len() < old_families.len();
    if released && list(spec, "clusterIPs").is_empty() {
        errors.invalid(at.index(0), shown, "primary ipFamily can not be unset");
    }
    let first_changed = families.first() != old_families.first();
    if !families.is_empty() && !old_families.is_empty() && first_changed {
        errors.invalid(at.index(0), part(spec, "clusterIPs"), KEPT);
    }
    if released && families.len() == 1 {
        validate_release(spec, "must be set to 'SingleStack' when releasing the secondary ipFamily", errors);
    }
}

/// A return to one family must be explicit.
fn validate_release(spec: &Value, why: &str, errors: &mut ErrorList) {
    if text(spec, "ipFamilyPolicy") != "SingleStack" {
        errors.invalid(SPEC.child("ipFamilyPolicy"), part(spec, "ipFamilyPolicy"), why);
    }
}
