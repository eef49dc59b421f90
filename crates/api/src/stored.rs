//! The form of an object after a write: without fields whose feature gates are off, and with null for lists that upstream's
//! storage encoding cannot tell from absent ones.
//!
//! Only types that contain such fields, or types with such fields, are walked.

use std::ptr;

use crate::schema::{Field, Kind, Struct};
use crate::value::Value;

/// The fields of a type that writes change, or look into, by their positions. Every object that is written is walked, so they
/// are found once.
#[derive(Debug)]
pub(crate) struct WriteSteps {
    disabled: Box<[u32]>,
    /// Fields with disabled fields inside.
    with_disabled: Box<[u32]>,
    kept_lists: Box<[u32]>,
    /// Fields with kept lists inside.
    with_lists: Box<[u32]>,
}

impl WriteSteps {
    fn of(schema: &Struct) -> WriteSteps {
        let positions = |wanted: &dyn Fn(&Field) -> bool| -> Box<[u32]> {
            (0u32..).zip(&schema.fields).filter(|(_, field)| wanted(field)).map(|(at, _)| at).collect()
        };
        let disabled = schema.go_fields.iter().filter(|field| field.disabled);
        WriteSteps {
            disabled: disabled.filter_map(|field| u32::try_from(field.position).ok()).collect(),
            with_disabled: positions(&|field| reaches(&field.kind, has_disabled)),
            kept_lists: positions(&is_kept_list),
            with_lists: positions(&|field| reaches(&field.kind, has_kept_list)),
        }
    }
}

fn steps(schema: &Struct) -> &WriteSteps {
    schema.write_steps.get_or_init(|| WriteSteps::of(schema))
}

/// Drops fields whose feature gates are off, and lifecycles that have only such fields.
pub fn drop_disabled(value: &mut Value, schema: &Struct) {
    let Value::Object(map) = value else { return };
    let WriteSteps { disabled, with_disabled, .. } = steps(schema);
    for at in disabled {
        map.remove(&schema.fields[*at as usize].name);
    }
    for at in with_disabled {
        let field = &schema.fields[*at as usize];
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
    let WriteSteps { kept_lists, with_lists, .. } = steps(schema);
    for at in kept_lists {
        let member = map.get_mut(&schema.fields[*at as usize].name);
        if let Some(member) =
            member.filter(|member| matches!(member, Value::Array(items) if items.is_empty()))
        {
            *member = Value::Null;
        }
    }
    for at in with_lists {
        let field = &schema.fields[*at as usize];
        if let Some(member) = map.get_mut(&field.name) {
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

/// True if values of a kind can contain a struct that meets a condition.
fn reaches(kind: &Kind, meets: fn(&Struct) -> bool) -> bool {
    // Types may contain themselves.
    let mut found: Vec<&Struct> = inner(kind).into_iter().collect();
    let mut at = 0;
    while let Some(&schema) = found.get(at) {
        if meets(schema) {
            return true;
        }
        for inside in schema.fields.iter().filter_map(|field| inner(&field.kind)) {
            if !found.iter().any(|known| ptr::eq(*known, inside)) {
                found.push(inside);
            }
        }
        at += 1;
    }
    false
}

fn has_disabled(schema: &Struct) -> bool {
    schema.go_fields.iter().any(|field| field.disabled)
}

fn has_kept_list(schema: &Struct) -> bool {
    schema.fields.iter().any(is_kept_list)
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
    use crate::schema::lookup;
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
