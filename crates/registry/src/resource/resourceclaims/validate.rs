//! Validation of claims and their status.

use std::collections::HashSet;

use corten_api::status::{ErrorList, FieldError, FieldErrorKind};
use corten_api::{ByContent, Field, Value, json, set_of};

use crate::prepare::same;
use crate::resource::claims::{validate_claim, validate_request_name, validate_request_names};
use crate::resource::validate::{
    CONFIG_MAX, Keyed, validate_binding_conditions, validate_configuration, validate_data,
    validate_driver_name, validate_items, validate_keyed_items, validate_label, validate_pool_name,
    validate_texts, validate_toleration,
};
use crate::validation::conditions::validate_conditions;
use crate::validation::ip;
use crate::validation::node_selector::{NodeSelectorValues, validate_node_selector};
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};

const SPEC: Field<'static> = Field::new("spec");
const STATUS: Field<'static> = Field::new("status");
const RESERVATIONS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 8;
const DATA_MAX_LENGTH: usize = 10 * 1024;
const IPS_MAX: usize = 16;

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_claim(devices(object), &SPEC.child("devices"), errors);
}

/// The spec is immutable.
pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    if !same(object, old, &["spec"]) {
        errors.invalid(SPEC, &Value::Null, "field is immutable");
    }
}

fn devices(object: &Value) -> &Value {
    object.at(&["spec", "devices"]).unwrap_or(&Value::Null)
}

pub(super) fn subresource(name: &str, object: &Value, old: &Value, errors: &mut ErrorList) {
    if name != "status" {
        return;
    }
    let status = object.get("status").unwrap_or(&Value::Null);
    let allocation = member(status, "allocation");
    validate_reservations(list(status, "reservedFor"), errors);
    let results = allocation.map_or(&[][..], |allocation| allocation.items_at(&["devices", "results"]));
    validate_device_statuses(list(status, "devices"), results, errors);
    validate_reserved_allocation(object, old, errors);
    let Some(allocation) = allocation else { return };
    let at = STATUS.child("allocation");
    if old.at(&["status", "allocation"]).is_some_and(|old| !old.is_null()) {
        if !same(object, old, &["status", "allocation"]) {
            errors.invalid(at, &Value::Null, "field is immutable");
        }
    } else {
        validate_allocation(allocation, devices(object), &at, errors);
    }
}

fn validate_reservations(users: &[Value], errors: &mut ErrorList) {
    let at = STATUS.child("reservedFor");
    let declared = Some("ResourceClaimConsumerReference");
    let keyed = Keyed { key: "uid", most: RESERVATIONS_MAX, declared };
    validate_keyed_items(users, keyed, &at, errors, &mut |user, at, errors| {
        for key in ["resource", "name", "uid"].into_iter().filter(|key| text(user, key).is_empty()) {
            errors.required(at.child(key), "");
        }
    });
}

/// Only an allocated claim can be reserved, and one that is being deleted gets no new reservations.
fn validate_reserved_allocation(object: &Value, old: &Value, errors: &mut ErrorList) {
    const USERS: &[&str] = &["status", "reservedFor"];
    let users = object.items_at(USERS);
    let at = STATUS.child("reservedFor");
    if users.is_empty() {
        return;
    }
    let has = |path: &[&str]| object.at(path).is_some_and(|value| !value.is_null());
    if !has(&["status", "allocation"]) {
        errors.forbidden(at, "may not be specified when `allocated` is not set");
    } else if has(&["metadata", "deletionTimestamp"]) && new_entries(users, old.items_at(USERS)) {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(at, why);
    }
}

fn validate_allocation(allocation: &Value, devices: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let given = allocation.get("devices").unwrap_or(&Value::Null);
    let given_at = at.child("devices");
    let results = list(given, "results");
    validate_items(results, RESULTS_MAX, &given_at.child("results"), errors, &mut |result, at, errors| {
        validate_result(result, devices, at, errors);
    });
    let config = list(given, "config");
    validate_items(config, 2 * CONFIG_MAX, &given_at.child("config"), errors, &mut |config, at, errors| {
        match text(config, "source") {
            "FromClaim" | "FromClass" => {}
            "" => errors.required(at.child("source"), ""),
            other => {
                let known = &["FromClaim", "FromClass"];
                errors.not_supported(at.child("source"), &Value::from(other), known);
            }
        }
        validate_request_names(config, devices, at, errors);
        validate_configuration(config, false, at, errors);
    });
    if let Some(selector) = member(allocation, "nodeSelector") {
        validate_node_selector(selector, NodeSelectorValues::Checked, &at.child("nodeSelector"), errors);
    }
}

fn validate_result(result: &Value, devices: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_request_name(text(result, "request"), devices, &at.child("request"), errors);
    validate_device_id(result, at, errors);
    validate_binding_conditions(result, at, errors);
    for (i, toleration) in list(result, "tolerations").iter().enumerate() {
        validate_toleration(toleration, &at.child("tolerations").index(i), errors);
    }
    validate_share(result, at, errors);
}

fn validate_device_id(device: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_driver_name(text(device, "driver"), &at.child("driver"), errors);
    validate_pool_name(text(device, "pool"), &at.child("pool"), errors);
    validate_label(text(device, "device"), &at.child("device"), errors);
}

fn validate_share(device: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(id) = member(device, "shareID") else { return };
    if !is_lowercase_uuid(id.as_str().unwrap_or_default()) {
        errors.invalid(at.child("shareID"), id, "must be a lowercase UUID in 8-4-4-4-12 format");
    }
}

fn is_lowercase_uuid(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || is_digit(byte))
}

/// The reports of drivers on devices, which must be allocated ones.
fn validate_device_statuses(statuses: &[Value], results: &[Value], errors: &mut ErrorList) {
    const ID: [&str; 4] = ["driver", "pool", "device", "shareID"];
    let id = |device| ID.map(|key| text(device, key));
    let allocated: HashSet<[&str; 4]> = results.iter().map(id).collect();
    let repeats = Repeats::of(statuses, id);
    let at = STATUS.child("devices");
    for (i, device) in statuses.iter().enumerate() {
        let at = at.index(i);
        validate_device_id(device, &at, errors);
        validate_share(device, &at, errors);
        if !allocated.contains(&id(device)) {
            errors.invalid_shown(at, shown_id(device), "must be an allocated device in the claim");
        }
        let conditions = list(device, "conditions");
        if conditions.len() > CONDITIONS_MAX {
            errors.too_many(at.child("conditions"), conditions.len(), CONDITIONS_MAX);
        }
        validate_conditions(conditions, &at.child("conditions"), errors);
        if let Some(data) = member(device, "data") {
            validate_data(data, false, DATA_MAX_LENGTH, &at.child("data"), errors);
        }
        if let Some(network) = member(device, "networkData") {
            validate_network(network, &at.child("networkData"), errors);
        }
    }
    for (i, device) in statuses.iter().enumerate() {
        if repeats.at(i) {
            errors.add(FieldError {
                kind: FieldErrorKind::Duplicate,
                field: at.index(i).into(),
                bad_value: Some(shown_id(device)),
                detail: String::new(),
            });
        }
    }
}

fn shown_id(device: &Value) -> String {
    let part = |key: &str| json::write_to_string(&Value::from(text(device, key)));
    let [driver, pool, name, share] = ["driver", "pool", "device", "shareID"].map(part);
    format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}")
}

fn validate_network(network: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (key, most) in [("interfaceName", 256), ("hardwareAddress", 128)] {
        if text(network, key).len() > most {
            errors.too_long(at.child(key), most);
        }
    }
    validate_texts(list(network, "ips"), IPS_MAX, &at.child("ips"), errors, &mut |address, at, errors| {
        ip::interface_address(address, at, errors);
    });
}

/// Returns true if a list has items that another has not.
fn new_entries(new: &[Value], old: &[Value]) -> bool {
    let known = set_of(old);
    new.iter().any(|item| !known.contains(&ByContent(item)))
}
