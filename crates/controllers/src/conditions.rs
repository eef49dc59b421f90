//! Conditions in a status: found, set and removed by type.

use corten_api::{Map, Value, time};
use jiff::Timestamp;

/// The condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// True if a condition is `True`.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).and_then(|c| c.str_at(&["status"])) == Some("True")
}

/// A condition whose last transition is now.
pub(crate) fn new(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut condition = Map::new();
    condition.insert("type", kind);
    condition.insert("status", status);
    condition.insert("lastTransitionTime", time::format(now));
    if !reason.is_empty() {
        condition.insert("reason", reason);
    }
    if !message.is_empty() {
        condition.insert("message", message);
    }
    Value::Object(condition)
}

/// Sets a condition in a status, unless one with the same status and reason is there. A condition that only changes its
/// reason keeps the time of its last transition.
pub(crate) fn set(status: &mut Value, mut condition: Value) {
    let field = |c: &Value, key: &str| c.str_at(&[key]).unwrap_or_default().to_owned();
    let list = status.make_object().entry("conditions").make_array();
    let kind = field(&condition, "type");
    if let Some(at) = list.iter().position(|c| field(c, "type") == kind) {
        let known = list.remove(at);
        if field(&known, "status") == field(&condition, "status") {
            if field(&known, "reason") == field(&condition, "reason") {
                list.insert(at, known);
                return;
            }
            condition.set(&["lastTransitionTime"], field(&known, "lastTransitionTime"));
        }
    }
    list.push(condition);
}

/// Replaces the condition of the same type in a status. It keeps the time of the last transition unless the status
/// differs.
pub(crate) fn put(status: &mut Value, mut condition: Value) {
    let list = status.make_object().entry("conditions").make_array();
    match list.iter_mut().find(|known| known.get("type") == condition.get("type")) {
        Some(known) => {
            if known.get("status") == condition.get("status")
                && let Some(since) = known.get("lastTransitionTime")
            {
                condition.set(&["lastTransitionTime"], since.clone());
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}

/// Removes a condition from a status.
pub(crate) fn remove(status: &mut Value, kind: &str) {
    let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    list.retain(|c| c.str_at(&["type"]) != Some(kind));
    if list.is_empty() {
        status.remove(&["conditions"]);
    }
}

/// Sets an existing condition to `False`; its reason stays.
pub(crate) fn fail(object: &mut Value, kind: &str, now: Timestamp) {
    let list = object.make_object().entry("status").make_object().entry("conditions").make_array();
    for condition in list.iter_mut().filter(|c| c.str_at(&["type"]) == Some(kind)) {
        condition.set(&["status"], "False");
        condition.set(&["lastTransitionTime"], time::format(now));
    }
}
