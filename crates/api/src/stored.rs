//! The form of an object after a write: without fields whose feature gates are off, and with null for lists that upstream's
//! storage encoding cannot tell from absent ones.
//!
//! Only types that contain such fields, or types with such fields, are walked.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::schema::{Field, Kind, Struct, lookup, struct_names};
use crate::value::Value;

type TypeNames = HashSet<(&'static str, &'static str)>;

static WITH_DISABLED: LazyLock<TypeNames> =
    LazyLock::new(|| containing(|schema| schema.go_fields.iter().any(|field| field.disabled)));
static WITH_LISTS: LazyLock<TypeNames> =
    LazyLock::new(|| containing(|schema| schema.fields.iter().any(is_kept_list)));

/// Drops fields whose feature gates are off, and lifecycles that have only such fields.
pub fn drop_disabled(value: &mut Value, schema: &Struct) {
    let Value::Object(map) = value else { return };
    if !WITH_DISABLED.contains(&(schema.package.as_str(), schema.name.as_str())) {
        return;
    }
    for field in schema.go_fields.iter().filter(|field| field.disabled) {
        map.remove(&schema.fields[field.position].name);
    }
    for field in &schema.fields {
        let Some(member) = map.get_mut(&field.name) else { continue };
        let was_empty = is_empty(member);
        each_struct(member, &field.kind, &mut drop_disabled);
        let is_lifecycle = matches!(&field.kind, Kind::Struct(schema) if &*schema.name == "Lifecycle");
        if is_lifecycle && !was_empty && is_empty(member) {
            map.remove(&field.name);
        }
    }
}

/// Replaces empty lists by null where the field is always encoded.
pub fn null_empty_lists(value: &mut Value, schema: &Struct) {
    let Value::Object(map) = value else { return };
    if !WITH_LISTS.contains(&(schema.package.as_str(), schema.name.as_str())) {
        return;
    }
    for field in &schema.fields {
        let Some(member) = map.get_mut(&field.name) else { continue };
        if is_kept_list(field) && matches!(member, Value::Array(items) if items.is_empty()) {
            *member = Value::Null;
        } else {
            each_struct(member, &field.kind, &mut null_empty_lists);
        }
    }
}

/// A list without `omitempty`.
fn is_kept_list(field: &Field) -> bool {
    matches!(field.kind, Kind::List(..)) && field.keep && !field.pointer
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Object(map) if map.is_empty())
}

/// Calls a function with every struct that a value of a kind consists of.
fn each_struct(value: &mut Value, kind: &Kind, visit: &mut dyn FnMut(&mut Value, &Struct)) {
    match (kind, value) {
        (Kind::Struct(schema), value) => visit(value, schema),
        (Kind::List(item, _), Value::Array(items)) => {
            items.iter_mut().for_each(|element| each_struct(element, item, visit));
        }
        (Kind::Map(item, _), Value::Object(map)) => {
            map.iter_mut().for_each(|(_, element)| each_struct(element, item, visit));
        }
        _ => {}
    }
}

/// The types that meet a condition, and the types that contain them.
fn containing(meets: impl Fn(&Struct) -> bool) -> TypeNames {
    let mut found = TypeNames::new();
    loop {
        let before = found.len();
        for (package, name) in struct_names() {
            let Some(schema) = lookup(package, name) else { continue };
            let inside = |field: &Field| {
                inner(&field.kind)
                    .is_some_and(|inner| found.contains(&(inner.package.as_str(), inner.name.as_str())))
            };
            if meets(&schema) || schema.fields.iter().any(inside) {
                found.insert((package, name));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The struct that a kind consists of.
fn inner(kind: &Kind) -> Option<&Struct> {
    match kind {
        Kind::Struct(schema) => Some(schema),
        Kind::List(item, _) | Kind::Map(item, _) => inner(item),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let schema = lookup("core/v1", "Pod").unwrap();
        let mut pod = value!({"spec": {
            "containers": [
                {"name": "a", "lifecycle": {"stopSignal": "SIGTERM"}},
                {"name": "b", "lifecycle": {"stopSignal": "SIGTERM", "preStop": {"httpGet": {"port": 1, "protocol": "HTTP2"}}}},
                {"name": "c", "lifecycle": {}},
            ],
            "evictionResponders": [{"name": "r"}],
            "schedulingGroup": {},
            "volumes": [{"name": "v", "emptyDir": {"mode": 7}}],
            "nodeName": "n",
        }});
        drop_disabled(&mut pod, &schema);
        let expected = value!({"spec": {
            "containers": [
                {"name": "a"},
                {"name": "b", "lifecycle": {"preStop": {"httpGet": {"port": 1}}}},
                {"name": "c", "lifecycle": {}},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeName": "n",
        }});
        assert_eq!(pod, expected);
    }

    #[test]
    fn lists_that_are_always_encoded_become_null() {
        for (package, name, mut object, expected) in [
            ("rbac/v1", "Role", value!({"rules": []}), value!({"rules": null})),
            ("rbac/v1", "RoleBinding", value!({"subjects": []}), value!({"subjects": []})),
            ("core/v1", "LimitRange", value!({"spec": {"limits": []}}), value!({"spec": {"limits": null}})),
            (
                "batch/v1",
                "CronJob",
                value!({"spec": {"jobTemplate": {"spec": {"podFailurePolicy": {"rules": []}}}}}),
                value!({"spec": {"jobTemplate": {"spec": {"podFailurePolicy": {"rules": null}}}}}),
            ),
        ] {
            null_empty_lists(&mut object, &lookup(package, name).unwrap());
            assert_eq!(object, expected, "{name}");
        }
    }
}
