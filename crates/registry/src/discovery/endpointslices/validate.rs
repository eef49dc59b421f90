//! Validation of endpoint slices and their updates.

use std::net::IpAddr;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::endpoint::{endpoint_ip, validate_protocols};
use crate::validation::fields::{immutable_unshown, one_of};
use crate::validation::ip::{canonical_ip, ip_warning, legacy_ip, parse_sloppy};
use crate::validation::label_selector::validate_labels;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, optional, text};

const MOST_ADDRESSES: usize = 100;
const MOST_ENDPOINTS: usize = 1000;
const MOST_HINTS: usize = 8;
const MOST_PORTS: usize = 20_000;
const MOST_TOPOLOGY_LABELS: usize = 16;
const ENDPOINTS: Field<'static> = Field::new("endpoints");

pub(super) fn create(slice: &Value, errors: &mut ErrorList) {
    validate_type_and_ports(slice, errors);
    validate_endpoints(slice, errors);
}

/// Stored endpoints are not validated again.
pub(super) fn update(slice: &Value, old: &Value, errors: &mut ErrorList) {
    validate_type_and_ports(slice, errors);
    if list(slice, "endpoints") != list(old, "endpoints") {
        validate_endpoints(slice, errors);
    }
    immutable_unshown(slice, old, "addressType", &Field::ROOT, errors);
}

fn validate_type_and_ports(slice: &Value, errors: &mut ErrorList) {
    one_of(slice, "addressType", &["FQDN", "IPv4", "IPv6"], &Field::ROOT, errors);
    let (ports, at) = (list(slice, "ports"), Field::new("ports"));
    if ports.len() > MOST_PORTS {
        errors.too_many(at, ports.len(), MOST_PORTS);
        return;
    }
    let repeats = Repeats::of(ports, |port| text(port, "name"));
    for (i, port) in ports.iter().enumerate() {
        let (at, name) = (at.index(i), text(port, "name"));
        optional(name, names::dns1123_label, &at.child("name"), errors);
        if repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
        validate_protocols(port, &at, errors);
    }
}

fn validate_endpoints(slice: &Value, errors: &mut ErrorList) {
    let endpoints = list(slice, "endpoints");
    if endpoints.len() > MOST_ENDPOINTS {
        errors.too_many(ENDPOINTS, endpoints.len(), MOST_ENDPOINTS);
        return;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let at = ENDPOINTS.index(i);
        validate_addresses(endpoint, text(slice, "addressType"), &at.child("addresses"), errors);
        if let Some(node) = endpoint.str_at(&["nodeName"]) {
            complain(&at.child("nodeName"), node, names::dns1123_subdomain(node), errors);
        }
        validate_topology(endpoint, &at.child("deprecatedTopology"), errors);
        if let Some(host) = endpoint.str_at(&["hostname"]) {
            complain(&at.child("hostname"), host, names::dns1123_label(host), errors);
        }
        if let Some(hints) = member(endpoint, "hints") {
            validate_hints(hints, &at.child("hints"), errors);
        }
    }
}

fn validate_addresses(endpoint: &Value, kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let addresses = list(endpoint, "addresses");
    match addresses.len() {
        0 => errors.required(at, ""),
        many if many > MOST_ADDRESSES => errors.too_many(at, many, MOST_ADDRESSES),
        _ => {}
    }
    for (i, address) in addresses.iter().enumerate() {
        let (item, address) = (at.index(i), address.as_str().unwrap_or_default());
        let before = errors.0.len();
        match kind {
            "IPv4" => legacy_ip(address, &item, errors),
            "IPv6" => complain(&item, address, canonical_ip(address), errors),
            "FQDN" => return validate_names(addresses, at, errors),
            _ => return,
        }
        if errors.0.len() != before {
            continue;
        }
        let is_v4 = parse_sloppy(address).map(|address| address.to_canonical());
        if is_v4.as_ref().is_some_and(IpAddr::is_ipv4) != (kind == "IPv4") {
            errors.invalid(at, &Value::from(address), format!("must be an {kind} address"));
        }
        endpoint_ip(address, &item, errors);
    }
}

fn validate_names(addresses: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, name) in addresses.iter().enumerate() {
        let (at, name) = (at.index(i), name.as_str().unwrap_or_default());
        let name = match name.strip_suffix('.') {
            Some(rest) => rest,
            None if name.is_empty() => {
                errors.required(at, "");
                continue;
            }
            None => name,
        };
        let complaints = names::dns1123_subdomain(name);
        if !complaints.is_empty() {
            errors.invalid(at, &Value::from(name), complaints.join(","));
        } else if !name.contains('.') {
            let why = "should be a domain with at least two segments separated by dots";
            errors.invalid(at, &Value::from(name), why);
        } else if let Some(label) = name.split('.').find(|label| !names::dns1123_label(label).is_empty()) {
            errors.invalid(at, &Value::from(label), names::dns1123_label(label).join(","));
        }
    }
}

fn validate_topology(endpoint: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let topology = endpoint.get("deprecatedTopology");
    let labels = topology.and_then(Value::as_object).map_or(0, corten_api::Map::len);
    if labels > MOST_TOPOLOGY_LABELS {
        errors.too_many(at, labels, MOST_TOPOLOGY_LABELS);
    }
    validate_labels(topology, at, errors);
}

fn validate_hints(hints: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    type Format = fn(&str) -> Vec<String>;
    let kinds: [(&str, Format); 2] =
        [("forZones", names::label_value), ("forNodes", names::dns1123_subdomain)];
    for (key, format) in kinds {
        let (at, items) = (at.child(key), list(hints, key));
        if items.len() > MOST_HINTS {
            errors.too_many(at, items.len(), MOST_HINTS);
            return;
        }
        let repeats = Repeats::of(items, |hint| text(hint, "name"));
        for (i, hint) in items.iter().enumerate() {
            let at = at.index(i);
            if repeats.at(i) {
                errors.duplicate(at.child("name"), &Value::from(text(hint, "name")));
            }
            complain(&at.child("name"), text(hint, "name"), format(text(hint, "name")), errors);
        }
    }
}

/// Upstream's controllers write addresses in canonical form.
pub(super) fn warnings(slice: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && text(slice, "addressType") == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = slice.str_at(&["metadata", "labels", "endpointslice.kubernetes.io/managed-by"]);
    let controllers = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    if by.is_some_and(|by| controllers.contains(&by)) {
        return warnings;
    }
    for (i, endpoint) in list(slice, "endpoints").iter().enumerate() {
        let at = ENDPOINTS.index(i);
        for (i, address) in list(endpoint, "addresses").iter().enumerate() {
            let at = at.child("addresses");
            warnings.extend(ip_warning(address.as_str().unwrap_or_default(), &at.index(i)));
        }
    }
    warnings
}
