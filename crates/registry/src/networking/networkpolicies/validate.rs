//! Validation of network policies: selected pods, allowed peers and ports.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::ip::{self, Cidr};
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::text::{complain, list, member, port_number, text};

const SPEC: Field<'static> = Field::new("spec");

/// The rules of each direction, and their member with peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Invalid values that a stored object may keep.
#[derive(Default)]
struct Leeway<'v> {
    selectors: LabelSelectorOptions,
    cidrs: HashSet<&'v str>,
}

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), &Leeway::default(), errors);
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    let mut before = ErrorList::new();
    let selector = member(spec(old), "podSelector");
    validate_label_selector(selector, LabelSelectorOptions::default(), &Field::ROOT, &mut before);
    let selectors = LabelSelectorOptions { allow_invalid_values: !before.is_empty() };
    let mut cidrs = HashSet::new();
    each_block(spec(old), &mut |block, _| {
        cidrs.insert(text(block, "cidr"));
        cidrs.extend(excepted(block));
    });
    let leeway = Leeway { selectors, cidrs };
    validate_spec(spec(object), &leeway, errors);
}

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Calls `seen` with every IP block among the peers, and its path.
fn each_block<'v>(spec: &'v Value, seen: &mut dyn FnMut(&'v Value, &Field<'_>)) {
    for (rules, peers) in DIRECTIONS {
        let at = SPEC.child(rules);
        for (i, rule) in list(spec, rules).iter().enumerate() {
            let at = at.index(i);
            for (j, peer) in list(rule, peers).iter().enumerate() {
                if let Some(block) = member(peer, "ipBlock") {
                    seen(block, &at.child(peers).index(j).child("ipBlock"));
                }
            }
        }
    }
}

fn excepted(block: &Value) -> impl Iterator<Item = &str> {
    list(block, "except").iter().map(|cidr| cidr.as_str().unwrap_or_default())
}

fn validate_spec(spec: &Value, leeway: &Leeway<'_>, errors: &mut ErrorList) {
    validate_label_selector(
        member(spec, "podSelector"),
        leeway.selectors,
        &SPEC.child("podSelector"),
        errors,
    );
    for (rules, peers) in DIRECTIONS {
        let at = SPEC.child(rules);
        for (i, rule) in list(spec, rules).iter().enumerate() {
            let at = at.index(i);
            for (i, port) in list(rule, "ports").iter().enumerate() {
                validate_port(port, &at.child("ports").index(i), errors);
            }
            for (i, peer) in list(rule, peers).iter().enumerate() {
                validate_peer(peer, leeway, &at.child(peers).index(i), errors);
            }
        }
    }
    validate_policy_types(list(spec, "policyTypes"), errors);
}

fn validate_policy_types(types: &[Value], errors: &mut ErrorList) {
    let at = SPEC.child("policyTypes");
    if types.len() > 2 {
        errors.invalid(at, &Value::from(types.to_vec()), "may not specify more than two policyTypes");
        return;
    }
    for (i, kind) in types.iter().enumerate() {
        if !matches!(kind.as_str(), Some("Ingress" | "Egress")) {
            errors.not_supported(at.index(i), kind, &["Ingress", "Egress"]);
        }
    }
}

fn validate_port(port: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = member(port, "protocol")
        && !matches!(protocol.as_str(), Some("TCP" | "UDP" | "SCTP"))
    {
        errors.not_supported(at.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = member(port, "endPort");
    let end_at = at.child("endPort");
    match member(port, "port") {
        None => {
            if let Some(end) = end {
                errors.invalid(end_at, end, "may not be specified when `port` is not specified");
            }
        }
        Some(Value::String(name)) => {
            if let Some(end) = end {
                errors.invalid(end_at, end, "may not be specified when `port` is non-numeric");
            }
            complain(&at.child("port"), name, names::port_name(name), errors);
        }
        Some(number) => {
            let number = number.as_int().unwrap_or(0);
            port_number(number, &at.child("port"), errors);
            if let Some(end) = end.and_then(Value::as_int) {
                if end < number {
                    let why = "must be greater than or equal to `port`";
                    errors.invalid(end_at, &Value::from(end), why);
                }
                port_number(end, &end_at, errors);
            }
        }
    }
}

fn validate_peer(peer: &Value, leeway: &Leeway<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let mut selectors = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = member(peer, key) {
            selectors += 1;
            validate_label_selector(Some(selector), leeway.selectors, &at.child(key), errors);
        }
    }
    match member(peer, "ipBlock") {
        Some(block) => {
            validate_block(block, leeway, &at.child("ipBlock"), errors);
            if selectors > 0 {
                errors.forbidden(at, "may not specify both ipBlock and another peer");
            }
        }
        None if selectors == 0 => errors.required(at, "must specify a peer"),
        None => {}
    }
}

fn validate_block(block: &Value, leeway: &Leeway<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        errors.required(at.child("cidr"), "");
        return;
    }
    if !leeway.cidrs.contains(cidr) {
        ip::legacy_cidr(cidr, &at.child("cidr"), errors);
    }
    let Some(cidr) = Cidr::parse_sloppy(cidr) else { return };
    let at = at.child("except");
    for (i, range) in excepted(block).enumerate() {
        let at = at.index(i);
        if !leeway.cidrs.contains(range) {
            ip::legacy_cidr(range, &at, errors);
        }
        if Cidr::parse_sloppy(range).is_some_and(|range| !cidr.has_strict_subset(range)) {
            errors.invalid(at, &Value::from(range), "must be a strict subset of `cidr`");
        }
    }
}

/// Warnings about ranges that are not canonical.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    each_block(spec(object), &mut |block, at| {
        ip::cidr_warnings(text(block, "cidr"), &at.child("cidr"), &mut warnings);
        for (i, range) in excepted(block).enumerate() {
            ip::cidr_warnings(range, &at.child("except").index(i), &mut warnings);
        }
    });
    warnings
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn odd_ranges_are_warned_about() {
        let policy = value!({"spec": {
            "ingress": [{"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "2001:DB8::/32", "except": ["10.0.0.1/8"]}}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "010.0.0.0/8"}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        }});
        assert_eq!(
            warnings(&policy),
            [
                "spec.ingress[0].from[1].ipBlock.cidr: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")",
                "spec.ingress[0].from[1].ipBlock.except[0]: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
                "spec.egress[0].to[0].ipBlock.cidr: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\"",
            ]
        );
    }

    #[test]
    fn stored_ranges_are_accepted_again() {
        let policy = |cidrs: &[&str]| {
            let peers: Vec<Value> = cidrs.iter().map(|cidr| value!({"ipBlock": {"cidr": (*cidr)}})).collect();
            value!({"spec": {"podSelector": {}, "ingress": [{"from": (peers)}]}})
        };
        let mut errors = ErrorList::new();
        update(&policy(&["10.0.0.1/8", "10.0.0.2/8"]), &policy(&["10.0.0.1/8"]), &mut errors);
        let fields: Vec<String> = errors.0.into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["spec.ingress[0].from[1].ipBlock.cidr"]);
    }
}
