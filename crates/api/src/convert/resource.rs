//! Dynamic resource allocation: `v1beta1` has the fields of an exact request in the request itself, and those of a
//! device in `basic`.

use crate::value::{Map, Value};

const EXACT: &[&str] = &[
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

pub(super) fn claim_from_v1beta1(claim: &mut Value) {
    each(claim, &["spec", "devices", "requests"], wrap_exact);
}

pub(super) fn claim_to_v1beta1(claim: &mut Value) {
    each(claim, &["spec", "devices", "requests"], unwrap_exact);
}

pub(super) fn template_from_v1beta1(template: &mut Value) {
    each(template, &["spec", "spec", "devices", "requests"], wrap_exact);
}

pub(super) fn template_to_v1beta1(template: &mut Value) {
    each(template, &["spec", "spec", "devices", "requests"], unwrap_exact);
}

pub(super) fn slice_from_v1beta1(slice: &mut Value) {
    each(slice, &["spec", "devices"], |device| {
        if let Some(Value::Object(basic)) = device.remove("basic") {
            for (key, value) in basic {
                device.insert(key, value);
            }
        }
    });
    // Zero values there are absent here, where they are pointers.
    if let Some(Value::Object(spec)) = slice.get_mut("spec") {
        spec.retain(|key, value| match key.as_str() {
            "nodeName" => value.as_str() != Some(""),
            "allNodes" => value.as_bool() != Some(false),
            _ => true,
        });
    }
}

pub(super) fn slice_to_v1beta1(slice: &mut Value) {
    each(slice, &["spec", "devices"], |device| {
        let mut basic = std::mem::take(device);
        if let Some(name) = basic.remove("name") {
            device.insert("name", name);
        }
        device.insert("basic", basic);
    });
}

/// Applies a step to every object in the list at a path.
fn each(value: &mut Value, path: &[&str], step: fn(&mut Map)) {
    let list = path.iter().try_fold(value, |place, key| place.get_mut(key));
    for item in list.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(item) = item {
            step(item);
        }
    }
}

fn wrap_exact(request: &mut Map) {
    let mut exactly = Map::new();
    for name in EXACT {
        match request.remove(name) {
            None => {}
            // An empty class is no class.
            Some(Value::String(text)) if text.is_empty() => {}
            Some(value) => {
                exactly.insert(*name, value);
            }
        }
    }
    if !exactly.is_empty() {
        request.insert("exactly", exactly);
    }
}

fn unwrap_exact(request: &mut Map) {
    if let Some(Value::Object(exactly)) = request.remove("exactly") {
        for (key, value) in exactly {
            request.insert(key, value);
        }
    }
}
