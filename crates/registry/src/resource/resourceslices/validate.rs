//! Validation of slices: driver, pool and nodes.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use super::devices::{has_list_values, validate_device};
use crate::prepare::same;
use crate::resource::validate::{
    Keyed, validate_driver_name, validate_keyed_items, validate_label, validate_pool_name,
};
use crate::validation::node_selector::{NodeSelectorValues, validate_node_selector};
use crate::validation::text::{complain, list, member, required, text};

const SPEC: Field<'static> = Field::new("spec");
const DEVICES_MAX: usize = 128;
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;

pub(super) fn validate(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_driver_name(text(spec, "driver"), &SPEC.child("driver"), errors);
    validate_pool(spec.get("pool").unwrap_or(&Value::Null), &SPEC.child("pool"), errors);
    for path in [&["spec", "pool", "name"][..], &["spec", "driver"], &["spec", "nodeName"]] {
        if old.is_some_and(|old| !same(object, old, path)) {
            let value = object.at(path).unwrap_or(&Value::Null);
            errors.invalid(path.join("."), value, "field is immutable");
        }
    }
    validate_nodes(spec, errors);
    let devices = list(spec, "devices");
    let counters = list(spec, "sharedCounters");
    if member(spec, "sharedCounters").is_some() && member(spec, "devices").is_some() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid(SPEC, &Value::from(""), why);
    }
    let advanced = |device: &Value| {
        !list(device, "taints").is_empty()
            || !list(device, "consumesCounters").is_empty()
            || has_list_values(device)
    };
    let most = if devices.iter().any(advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = spec.bool_at(&["perDeviceNodeSelection"]) == Some(true);
    let old_devices = old.map_or(&[][..], |old| old.items_at(&["spec", "devices"]));
    validate_keyed_items(
        devices,
        Keyed { key: "name", most, declared: None },
        &SPEC.child("devices"),
        errors,
        &mut |device, at, errors| {
            let old = old_devices.iter().find(|old| text(old, "name") == text(device, "name"));
            validate_device(device, old, per_device, at, errors);
        },
    );
    let at = SPEC.child("sharedCounters");
    let keyed = Keyed { key: "name", most: COUNTER_SETS_MAX, declared: Some("CounterSet") };
    validate_keyed_items(counters, keyed, &at, errors, &mut |set, at, errors| {
        validate_counters(set, "name", at, errors);
    });
}

fn validate_pool(pool: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_pool_name(text(pool, "name"), &at.child("name"), errors);
    let number = |key: &str| pool.int_at(&[key]).unwrap_or(0);
    let (slices, generation) = (number("resourceSliceCount"), number("generation"));
    if slices <= 0 {
        let at = at.child("resourceSliceCount");
        errors.invalid(at, &Value::from(slices), "must be greater than zero");
    }
    if generation < 0 {
        let at = at.child("generation");
        errors.invalid(at, &Value::from(generation), "must be greater than or equal to zero");
    }
}

/// Exactly one selection of nodes.
fn validate_nodes(spec: &Value, errors: &mut ErrorList) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut said = Vec::new();
    match member(spec, "nodeName").map(|name| name.as_str().unwrap_or_default()) {
        None => {}
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            errors.invalid(SPEC.child("nodeName"), &Value::from(""), why);
        }
        Some(name) => {
            said.push("`nodeName`");
            complain(&SPEC.child("nodeName"), name, names::dns1123_subdomain(name), errors);
        }
    }
    if let Some(selector) = member(spec, "nodeSelector") {
        said.push("`nodeSelector`");
        let at = SPEC.child("nodeSelector");
        validate_node_selector(selector, NodeSelectorValues::Checked, &at, errors);
        let terms = list(selector, "nodeSelectorTerms");
        if terms.len() != 1 {
            let why = "must have exactly one node selector term";
            let shown = selector.get("nodeSelectorTerms").unwrap_or(&Value::Null);
            errors.invalid(at.child("nodeSelectorTerms"), shown, why);
        }
    }
    for (key, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match member(spec, key).and_then(Value::as_bool) {
            None => {}
            Some(true) => said.push(shown),
            Some(false) => {
                let why = "must be either unset or set to true";
                errors.invalid(SPEC.child(key), &Value::from(false), why);
            }
        }
    }
    match said.len() {
        0 => errors.required(SPEC, ONE),
        1 => {}
        _ => {
            let shown = Value::from(format!("{{{}}}", said.join(", ")));
            errors.invalid(SPEC, &shown, format!("{ONE}, but multiple fields are set"));
        }
    }
}

/// A set of counters, in the member of this name.
pub(super) fn validate_counters(set: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    required(text(set, key), names::short_name, &at.child(key), errors);
    let at = at.child("counters");
    let Some(counters) = set.get("counters").and_then(Value::as_object).filter(|map| !map.is_empty()) else {
        return errors.required(at, "");
    };
    if counters.len() > COUNTERS_MAX {
        return errors.too_many(at, counters.len(), COUNTERS_MAX);
    }
    Map::keys(counters).for_each(|name| validate_label(name, &at, errors));
}

/// Names of drivers should be in lower case.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let driver = object.str_at(&["spec", "driver"]).unwrap_or_default();
    let odd = driver.chars().any(char::is_uppercase);
    let warning =
        || format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters");
    odd.then(warning).into_iter().collect()
}
