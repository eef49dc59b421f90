//! Validation of nodes and their updates.

use std::net::IpAddr;

use corten_api::status::{ErrorList, FieldError, FieldErrorKind, quoted};
use corten_api::{Field, Value, json, names};

use crate::validation::fields::{entries, one_of, part};
use crate::validation::ip::{Cidr, cidr_warnings, legacy_cidr};
use crate::validation::number::positive;
use crate::validation::repeats::Repeats;
use crate::validation::resources::validate_quantity;
use crate::validation::text::{complain, list, text};

const SPEC: Field<'static> = Field::new("spec");
const STATUS: Field<'static> = Field::new("status");
const METADATA: Field<'static> = Field::new("metadata");

pub(super) fn create(node: &Value, errors: &mut ErrorList) {
    let spec = part(node, "spec");
    validate_annotations(node, errors);
    validate_taints(list(spec, "taints"), &METADATA.child("taints"), errors);
    validate_resources(node, errors);
    if let Some(capacity) = node.int_at(&["status", "nodeInfo", "swap", "capacity"]) {
        let at = METADATA.child("nodeSwapStatus");
        positive(capacity, &at.child("capacity"), errors);
    }
    validate_features(node, errors);
    validate_pod_ranges(spec, errors);
}

/// The node as a whole, then the immutable fields.
pub(super) fn update(node: &Value, old: &Value, errors: &mut ErrorList) {
    create(node, errors);
    status(node, old, errors);
}

/// The immutable fields, at every endpoint.
pub(super) fn status(node: &Value, old: &Value, errors: &mut ErrorList) {
    validate_annotations(node, errors);
    validate_resources(node, errors);
    validate_features(node, errors);
    validate_addresses(node, errors);
    let (spec, old) = (part(node, "spec"), part(old, "spec"));
    validate_kept_ranges(list(spec, "podCIDRs"), list(old, "podCIDRs"), errors);
    validate_provider(text(spec, "providerID"), text(old, "providerID"), errors);
    validate_taints(list(spec, "taints"), &METADATA.child("taints"), errors);
    if text(spec, "externalID") != text(old, "externalID") {
        errors.forbidden(SPEC.child("externalID"), "may not be updated");
    }
}

/// Taints used to be an annotation.
fn validate_annotations(node: &Value, errors: &mut ErrorList) {
    const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
    let annotated = node.str_at(&["metadata", "annotations", TAINTS]).unwrap_or_default();
    if annotated.is_empty() {
        return;
    }
    let at = METADATA.child("annotations");
    let why = match json::parse(annotated.as_bytes()) {
        Ok(Value::Array(taints)) => return validate_taints(&taints, &at.child(TAINTS), errors),
        Ok(Value::Null) => return,
        Ok(other) => format!("json: cannot unmarshal {} into Go value of type []core.Taint", other.go_kind()),
        Err(error) => error.to_string(),
    };
    errors.invalid(at, &Value::from(TAINTS), why);
}

fn validate_taints(taints: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(taints, |taint| (text(taint, "key"), text(taint, "effect")));
    for (i, taint) in taints.iter().enumerate() {
        let (at, key, value) = (at.index(i), text(taint, "key"), text(taint, "value"));
        complain(&at.child("key"), key, names::qualified_name(key), errors);
        let complaints = names::label_value(value);
        if !complaints.is_empty() {
            errors.invalid(at.child("value"), &Value::from(value), complaints.join(";"));
        }
        one_of(taint, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at, errors);
        if repeats.at(i) {
            errors.add(FieldError {
                kind: FieldErrorKind::Duplicate,
                field: at.to_string(),
                bad_value: Some(shown_taint(taint)),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
}

fn shown_taint(taint: &Value) -> String {
    format!(
        r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":{}}}"#,
        quoted(text(taint, "key")),
        quoted(text(taint, "value")),
        quoted(text(taint, "effect")),
        json::write_to_string(part(taint, "timeAdded")),
    )
}

fn validate_resources(node: &Value, errors: &mut ErrorList) {
    let status = part(node, "status");
    for key in ["capacity", "allocatable"] {
        let at = STATUS.child(key);
        for (name, amount) in entries(status, key) {
            validate_quantity(name, amount, &at.child(name), errors);
        }
    }
}

/// Features are listed by name, each once.
fn validate_features(node: &Value, errors: &mut ErrorList) {
    let features = node.items_at(&["status", "declaredFeatures"]);
    let at = STATUS.child("declaredFeatures");
    for (i, feature) in features.iter().enumerate() {
        let name = feature.as_str().unwrap_or_default();
        if let Some(why) = feature_complaint(name) {
            let why = format!("invalid feature name {}: {why}", quoted(name));
            errors.invalid(at.index(i), feature, why);
        }
        let next = features.get(i + 1).and_then(Value::as_str);
        match next.map(|next| (next, name.cmp(next))) {
            Some((next, std::cmp::Ordering::Equal)) => {
                errors.duplicate(at.index(i + 1), &Value::from(next));
            }
            Some((next, std::cmp::Ordering::Greater)) => {
                errors.invalid(at.index(i + 1), &Value::from(next), "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}

fn feature_complaint(name: &str) -> Option<&'static str> {
    if name.len() > names::SUBDOMAIN_MAX_LENGTH {
        return Some("must be no more than 253 characters");
    }
    let is_word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let fits = name.starts_with(|first: char| first.is_ascii_uppercase()) && name.split('/').all(is_word);
    (!fits).then_some(
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
    )
}

/// At most one range of each IP family.
fn validate_pod_ranges(spec: &Value, errors: &mut ErrorList) {
    let (ranges, at) = (list(spec, "podCIDRs"), SPEC.child("podCIDRs"));
    for (i, range) in ranges.iter().enumerate() {
        legacy_cidr(range.as_str().unwrap_or_default(), &at.index(i), errors);
    }
    if ranges.len() < 2 {
        return;
    }
    let family = |range: &Value| {
        let cidr = range.as_str().and_then(Cidr::parse_sloppy)?;
        Some(IpAddr::is_ipv4(&cidr.address.to_canonical()))
    };
    let unreadable = ranges.iter().position(|range| family(range).is_none());
    if let Some(i) = unreadable {
        let range = ranges.get(i).and_then(Value::as_str).unwrap_or_default();
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {range})"
        );
        errors.internal(at, why);
    }
    let both = [true, false].into_iter().all(|v4| ranges.iter().any(|range| family(range) == Some(v4)));
    if unreadable.is_some() || !both || ranges.len() > 2 {
        let why = "may specify no more than one CIDR for each IP family";
        errors.invalid(at, part(spec, "podCIDRs"), why);
    }
}

fn validate_addresses(node: &Value, errors: &mut ErrorList) {
    let addresses = node.items_at(&["status", "addresses"]);
    let at = STATUS.child("addresses");
    let repeats = Repeats::of(addresses, |address| (text(address, "type"), text(address, "address")));
    for (i, address) in addresses.iter().enumerate() {
        if repeats.at(i) {
            let (kind, value) = (text(address, "type"), text(address, "address"));
            let shown = format!(r#"{{"Type":{},"Address":{}}}"#, quoted(kind), quoted(value));
            errors.duplicate(at.index(i), &Value::Raw(shown.into()));
        }
    }
}

/// Ranges are set once.
fn validate_kept_ranges(ranges: &[Value], old: &[Value], errors: &mut ErrorList) {
    if old.is_empty() {
        return;
    }
    let changes = match ranges.len() == old.len() {
        true => ranges.iter().zip(old).filter(|(new, old)| new != old).count(),
        false => 1,
    };
    for _ in 0..changes {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(SPEC.child("podCIDRs"), why);
    }
}

fn validate_provider(provider: &str, old: &str, errors: &mut ErrorList) {
    if old.is_empty() || provider == old {
        return;
    }
    let how = if provider.is_empty() { "cleared" } else { "modified" };
    let why = format!("field cannot be {how} once set");
    errors.invalid(SPEC.child("providerID"), &Value::Null, why);
}

pub(super) fn warnings(node: &Value) -> Vec<String> {
    let (mut warnings, spec) = (Vec::new(), part(node, "spec"));
    if !text(spec, "externalID").is_empty() {
        let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
        warnings.push(warning.to_owned());
    }
    let at = SPEC.child("podCIDRs");
    for (i, range) in list(spec, "podCIDRs").iter().enumerate() {
        cidr_warnings(range.as_str().unwrap_or_default(), &at.index(i), &mut warnings);
    }
    warnings
}
