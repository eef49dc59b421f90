//! Defaults: helpers of the resources' `default` functions, and the parts that
//! several resources share.
//!
//! A default works on a whole, conformed tree. Static defaults (the schema's `default=`) are already set;
//! here are those that depend on other fields, and those of whole types. Applying them twice changes nothing
//! the second time, and a complete object is only read: nothing is allocated for it. A part of a wrong type
//! counts as absent.

mod container;
mod image;
mod pod_spec;
mod volume;

use corten_api::quantity::Quantity;
use corten_api::{Map, Str, Value};

pub(crate) use image::pull_policy;
pub(crate) use pod_spec::{host_ports, pod_spec, pod_template, template_labels};
pub(crate) use volume::host_path;

pub(crate) fn nothing(_: &mut Value) {}

/// Sets an absent member, where zero is a valid value (upstream: a pointer).
pub(crate) fn fill_absent(map: &mut Map, key: &'static str, value: impl Into<Value>) {
    if is_absent(map, key) {
        map.insert(Str::new_static(key), value);
    }
}

/// Sets a member that is zero or absent.
pub(crate) fn fill_zero(map: &mut Map, key: &'static str, value: impl Into<Value>) {
    if is_zero(map, key) {
        map.insert(Str::new_static(key), value);
    }
}

pub(crate) fn is_absent(map: &Map, key: &str) -> bool {
    map.get(key).is_none_or(Value::is_null)
}

/// Returns true if a member is absent or zero.
pub(crate) fn is_zero(map: &Map, key: &str) -> bool {
    map.get(key).is_none_or(|value| match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::String(s) | Value::Raw(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    })
}

/// A member that is an object, if it exists.
pub(crate) fn child<'a>(map: &'a mut Map, key: &str) -> Option<&'a mut Map> {
    map.get_mut(key)?.as_object_mut()
}

/// A member that is an object, created if necessary.
pub(crate) fn made<'a>(map: &'a mut Map, key: &'static str) -> &'a mut Map {
    map.entry(Str::new_static(key)).make_object()
}

/// The objects in a member that is a list.
pub(crate) fn items<'a>(map: &'a mut Map, key: &str) -> impl Iterator<Item = &'a mut Map> {
    let list = map.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Text in a member; empty if there is none.
pub(crate) fn text_of<'a>(map: &'a Map, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Limits and requests of the member `resources`.
pub(crate) fn resources(map: &mut Map) {
    let Some(resources) = child(map, "resources") else { return };
    resource_list(resources, "limits");
    resource_list(resources, "requests");
}

/// Quantities of resources are rounded up to thousandths.
pub(crate) fn resource_list(map: &mut Map, key: &str) {
    let Some(list) = child(map, key) else { return };
    for (_, amount) in list.iter_mut() {
        let Some(text) = amount.as_str().filter(|text| may_be_finer(text)) else { continue };
        let Ok(exact) = Quantity::parse(text) else { continue };
        let rounded = Quantity::scaled(exact.scaled_value(-3), -3, exact.format());
        if rounded != exact {
            *amount = Value::String(rounded.to_str());
        }
    }
}

/// Canonical quantities below a thousandth show it: `5n`, `5u`, `5e-6`.
fn may_be_finer(text: &str) -> bool {
    text.ends_with(['n', 'u']) || text.contains("e-")
}

/// Copies the entries of `from` that `to`, another member, lacks.
pub(crate) fn copy_missing(map: &mut Map, from: &str, to: &'static str) {
    let held = |key: &str| map.get(to).is_some_and(|target| target.get(key).is_some());
    let Some(source) = map.get(from).and_then(Value::as_object) else { return };
    let missing: Vec<(Str, Value)> = source
        .iter()
        .filter(|(key, _)| !held(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if missing.is_empty() {
        return;
    }
    let target = made(map, to);
    for (key, value) in missing {
        target.insert(key, value);
    }
}

/// The port of a reference to a service.
pub(crate) fn service_reference(owner: &mut Map) {
    if let Some(service) = child(owner, "service") {
        fill_absent(service, "port", 443);
    }
}
