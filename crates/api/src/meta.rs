//! Object metadata on trees: the few fields every object has.

use crate::value::{Map, Str, Value};

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

pub fn api_version(object: &Value) -> &str {
    object.str_at(&["apiVersion"]).unwrap_or_default()
}

pub fn kind(object: &Value) -> &str {
    object.str_at(&["kind"]).unwrap_or_default()
}

pub fn labels(object: &Value) -> Option<&Map> {
    object.at(&["metadata", "labels"])?.as_object()
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object.items_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

pub fn is_deleting(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some_and(|v| !v.is_null())
}

pub fn generation(object: &Value) -> i64 {
    object.int_at(&["metadata", "generation"]).unwrap_or_default()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.str_at(&["metadata", field]).unwrap_or_default()
}

/// The metadata of an object, created if there is none.
pub fn of(object: &mut Value) -> &mut Map {
    object.make_object().entry("metadata").make_object()
}

/// Sets a metadata text, or removes it when empty.
pub fn set_text(object: &mut Value, field: &'static str, value: &str) {
    let meta = of(object);
    if value.is_empty() {
        meta.remove(field);
    } else {
        meta.insert(Str::new_static(field), value);
    }
}
