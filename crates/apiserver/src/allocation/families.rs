//! The IP families of a service: from its spec, its old families, and the cluster's families.

use corten_api::status::ErrorList;
use corten_api::{Str, Value};
use corten_registry::service_addresses_fit;

use super::addressing::{Addressing, NONE, REQUIRE, SINGLE, family_of};
use super::cidr::Family;

/// The families of the cluster's services, the default one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) primary: Family,
    pub(crate) both: bool,
}

impl Families {
    pub(crate) fn has(&self, family: Family) -> bool {
        self.both || family == self.primary
    }
}

/// Sets the policy and families of a service that is about to be written, or returns their errors.
pub(super) fn complete(
    service: &mut Addressing,
    old: Option<&Addressing>,
    cluster: Families,
) -> Result<(), ErrorList> {
    if service.is_external_name() || old.is_some_and(|old| service.stays_as_preferred(old)) {
        return Ok(());
    }
    let headless = service.cluster_ip == NONE;
    let open = headless && !service.has_selector;
    if service.policy.is_none() {
        service.policy = Some(match old.and_then(|old| old.policy.clone()) {
            Some(policy) => policy,
            None if open => Str::new_static(REQUIRE),
            None => Str::new_static(SINGLE),
        });
    }
    let mut errors = ErrorList::new();
    // Validation checks the completed service again.
    if !service_addresses_fit(&service.tree(), old.map(Addressing::tree).as_ref(), &mut errors) {
        return Err(errors);
    }
    if let Some(old) = old {
        reduce(service, old, &mut errors);
    }
    check_policy(service, &mut errors);
    infer_from_addresses(service, cluster, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    if open {
        // The author of its endpoints decides their families; the cluster's do not limit them.
        add_families(service, cluster.primary, true);
        return Ok(());
    }
    check_offered(service, cluster)?;
    add_families(service, cluster.primary, cluster.both);
    Ok(())
}

/// Drops the second address if an update sets `SingleStack`, and only then.
fn reduce(service: &mut Addressing, old: &Addressing, errors: &mut ErrorList) {
    if service.policy() == SINGLE {
        if service.cluster_ips == old.cluster_ips {
            service.cluster_ips.truncate(1);
        }
        if service.families == old.families {
            service.families.truncate(1);
        }
        return;
    }
    let fewer = |new: &[Str], old: &[Str]| !new.is_empty() && new.len() < old.len();
    if fewer(&service.cluster_ips, &old.cluster_ips) {
        policy_error(service, "must be 'SingleStack' to release the secondary cluster IP", errors);
    }
    if fewer(&service.families, &old.families) {
        policy_error(service, "must be 'SingleStack' to release the secondary IP family", errors);
    }
}

fn policy_error(service: &Addressing, why: &str, errors: &mut ErrorList) {
    errors.invalid("spec.ipFamilyPolicy", &Value::from(service.policy()), why);
}

fn check_policy(service: &Addressing, errors: &mut ErrorList) {
    if service.policy() != SINGLE {
        return;
    }
    let allowed = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
    if service.cluster_ips.len() == 2 {
        policy_error(service, &format!("{allowed} cluster IPs are specified"), errors);
    }
    if service.families.len() == 2 {
        policy_error(service, &format!("{allowed} IP families are specified"), errors);
    }
}

/// Infers the families from the addresses.
fn infer_from_addresses(service: &mut Addressing, cluster: Families, errors: &mut ErrorList) {
    for (i, ip) in service.cluster_ips.iter().enumerate() {
        if ip == NONE {
            break;
        }
        if i < service.families.len() {
            continue;
        }
        let family = family_of(ip);
        if cluster.has(family) {
            service.families.push(Str::new_static(family.name()));
        } else {
            let why = format!("{family} is not configured on this cluster");
            errors.invalid(format!("spec.clusterIPs[{i}]"), &service.shown_ips(), why);
        }
    }
}

fn check_offered(service: &Addressing, cluster: Families) -> Result<(), ErrorList> {
    let mut errors = ErrorList::new();
    if service.policy() == REQUIRE && !cluster.both {
        policy_error(service, "this cluster is not configured for dual-stack services", &mut errors);
    }
    for (i, family) in service.families.iter().enumerate() {
        if !Family::named(family).is_some_and(|family| cluster.has(family)) {
            let field = format!("spec.ipFamilies[{i}]");
            errors.invalid(field, &Value::from(family.clone()), "not configured on this cluster");
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Adds the default family if there is none, and a second one if the policy wants two and the cluster has two.
fn add_families(service: &mut Addressing, primary: Family, both: bool) {
    if service.families.is_empty() {
        service.families.push(Str::new_static(primary.name()));
    }
    if let [only] = service.families.as_slice()
        && service.policy() != SINGLE
        && both
    {
        let other = Family::named(only).unwrap_or(primary).other();
        service.families.push(Str::new_static(other.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Families = Families { primary: Family::V4, both: false };
    const V6: Families = Families { primary: Family::V6, both: false };
    const V4_V6: Families = Families { primary: Family::V4, both: true };
    const V6_V4: Families = Families { primary: Family::V6, both: true };

    /// `ips families policy`, where `-` is nothing and `h:` before the addresses removes the selector.
    fn service(text: &str) -> Addressing {
        let parts: Vec<&str> = text.split(' ').collect();
        let list =
            |part: &str| -> Vec<Str> { part.split(',').filter(|item| *item != "-").map(Str::new).collect() };
        let (has_selector, ips) = match parts[0].strip_prefix("h:") {
            Some(ips) => (false, ips),
            None => (true, parts[0]),
        };
        let families: String = parts[1].replace('4', "IPv4").replace('6', "IPv6");
        let cluster_ips = list(ips);
        let policy = match parts[2] {
            "single" => Some(SINGLE),
            "prefer" => Some(super::super::addressing::PREFER),
            "require" => Some(REQUIRE),
            _ => None,
        };
        Addressing {
            kind: "ClusterIP".into(),
            cluster_ip: cluster_ips.first().cloned().unwrap_or_default(),
            cluster_ips,
            families: list(&families),
            policy: policy.map(Str::new_static),
            has_selector,
        }
    }

    #[track_caller]
    fn check(cluster: Families, old: Option<&str>, given: &str, expected: &str) {
        let mut found = service(given);
        let old = old.map(service);
        let outcome = complete(&mut found, old.as_ref(), cluster);
        match expected.strip_prefix("! ") {
            Some(why) => assert_eq!(outcome.unwrap_err().summary(), why, "{given}"),
            None => {
                assert_eq!(outcome, Ok(()), "{given}");
                assert_eq!(found, service(expected), "{given}");
            }
        }
    }

    #[test]
    fn new_services() {
        check(V4, None, "- - -", "- 4 single");
        check(V6, None, "- - -", "- 6 single");
        check(V4_V6, None, "- - -", "- 4 single");
        check(V4_V6, None, "- - prefer", "- 4,6 prefer");
        check(V6_V4, None, "- - require", "- 6,4 require");
        check(V4, None, "- - prefer", "- 4 prefer");
        check(V4_V6, None, "- 6 prefer", "- 6,4 prefer");
        check(V4_V6, None, "- 6 single", "- 6 single");
        check(V4_V6, None, "fd00::1 - -", "fd00::1 6 single");
        check(V4_V6, None, "fd00::1 - prefer", "fd00::1 6,4 prefer");
        check(V4_V6, None, "10.0.0.1,fd00::1 - prefer", "10.0.0.1,fd00::1 4,6 prefer");
        let why = "! spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or \
                   'PreferDualStack' when multiple";
        check(V4_V6, None, "- 4,6 -", &format!("{why} IP families are specified"));
        check(V4_V6, None, "10.0.0.1,fd00::1 - -", &format!("{why} cluster IPs are specified"));
        check(
            V4,
            None,
            "- - require",
            "! spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        );
        check(
            V4,
            None,
            "- 6 -",
            "! spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        );
        check(
            V4,
            None,
            "fd00::1 - -",
            "! spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        );
    }

    #[test]
    fn headless_services() {
        check(V4, None, "None - -", "None 4 single");
        check(V4_V6, None, "None - prefer", "None 4,6 prefer");
        check(V4, None, "h:None - -", "h:None 4,6 require");
        check(V6, None, "h:None - -", "h:None 6,4 require");
        check(V4, None, "h:None 6 -", "h:None 6,4 require");
        check(V4, None, "h:None - single", "h:None 4 single");
        check(V4, None, "h:None 4,6 require", "h:None 4,6 require");
    }

    #[test]
    fn updates() {
        let one = Some("10.0.0.1 4 single");
        let two = Some("10.0.0.1,fd00::1 4,6 require");
        let preferred = Some("10.0.0.1 4 prefer");
        check(V4_V6, one, "10.0.0.1 4 single", "10.0.0.1 4 single");
        check(V4_V6, one, "10.0.0.1 4 require", "10.0.0.1 4,6 require");
        check(V4_V6, one, "10.0.0.1 - -", "10.0.0.1 4 single");
        // A new family of the cluster does not change services, unless the policy is set again.
        check(V4_V6, preferred, "10.0.0.1 4 prefer", "10.0.0.1 4 prefer");
        check(V4_V6, preferred, "10.0.0.1 4 require", "10.0.0.1 4,6 require");
        check(V4_V6, two, "10.0.0.1,fd00::1 4,6 single", "10.0.0.1 4 single");
        check(V4_V6, two, "10.0.0.1,fd00::1 4,6 -", "10.0.0.1,fd00::1 4,6 require");
        let why = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release \
                   the secondary";
        check(V4_V6, two, "10.0.0.1 4,6 -", &format!("! {why} cluster IP"));
        check(V4_V6, two, "10.0.0.1 4 -", &format!("! [{why} cluster IP, {why} IP family]"));
    }
}
