//! Namespaces. They stay, terminating, until `spec.finalizers` is empty.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names, value};

use crate::defaults::{fill_zero, made};
use crate::prepare::copy;
use crate::rules::{NameRule, Path, Request, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, age, cells, field, name, present, str_at, text};
use crate::validate::is_finalizer;
use crate::validation::text::complain;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "namespaces",
    prefix_on_update: true,
    storage_prefix: "namespaces",
    name: NameRule::DnsLabel,
    default,
    prepare_create,
    prepare_update,
    prepare_subresource,
    reset_fields,
    validate_create,
    validate_update: |object, _, errors| validate_create(object, errors),
    validate_subresource,
    delete_returns_object: true,
    selectable: &[Selectable { label: "status.phase", value: |o| field(o, &["status", "phase"]) }],
    columns: &[NAME, text("Status", "The status of the namespace"), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["status", "phase"]), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_zero(made(object, "status"), "phase", "Active");
    label_with_name(object);
}

/// Every namespace can be selected by its name. A generated name is not known yet.
fn label_with_name(object: &mut Map) {
    let metadata = made(object, "metadata");
    let Some(name) = metadata.get("name").filter(|name| name.as_str().is_some_and(|n| !n.is_empty())) else {
        return;
    };
    if metadata.get("labels").and_then(|labels| labels.get(NAME_LABEL)) != Some(name) {
        let name = name.clone();
        made(metadata, "labels").insert(NAME_LABEL, name);
    }
}

/// A new namespace is active and has the finalizer that deletes its content.
fn prepare_create(object: &mut Value, _: &Request<'_>) {
    object.set(&["status"], value!({"phase": "Active"}));
    let kept = object.items_at(&["spec", "finalizers"]);
    if !kept.iter().any(|f| f.as_str() == Some(FINALIZER)) {
        let mut finalizers = kept.to_vec();
        finalizers.push(Value::from(FINALIZER));
        object.set(&["spec", "finalizers"], finalizers);
    }
    if let Some(object) = object.as_object_mut() {
        label_with_name(object);
    }
}

fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    copy(object, old, &["spec", "finalizers"]);
    copy(object, old, &["status"]);
}

fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, _: &Request<'_>) {
    match sub {
        "status" => copy(object, old, &["spec"]),
        "finalize" => copy(object, old, &["status"]),
        _ => {}
    }
}

fn reset_fields(sub: &str) -> &'static [Path] {
    match sub {
        "status" => &[&["spec"]],
        _ => &[&["status"]],
    }
}

const FINALIZERS: &[&str] = &["spec", "finalizers"];

fn validate_create(object: &Value, errors: &mut ErrorList) {
    let spec = Field::new("spec");
    for name in object.items_at(FINALIZERS) {
        validate_finalizer(name, &spec.child("finalizers"), errors);
    }
}

fn validate_finalizer(name: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let name = name.as_str().unwrap_or_default();
    complain(at, name, names::qualified_name(name), errors);
    if !is_finalizer(name) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(at, &Value::from(name), why);
    }
}

fn validate_subresource(sub: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    let spec = Field::new("spec");
    match sub {
        "finalize" => {
            let at = spec.child("finalizers");
            for (i, name) in object.items_at(FINALIZERS).iter().enumerate() {
                validate_finalizer(name, &at.index(i), errors);
            }
        }
        "status" => validate_phase(object, errors),
        _ => {}
    }
}

/// The phase is that of a terminating namespace exactly if it is being deleted.
fn validate_phase(object: &Value, errors: &mut ErrorList) {
    let (expected, why) = match present(object, &["metadata", "deletionTimestamp"]) {
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    let phase = str_at(object, &["status", "phase"]);
    if phase != expected {
        errors.invalid("status.Phase", &Value::from(phase), why);
    }
}

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_changes_its_own_part() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let mut old =
            value!({"metadata": {"name": "n"}, "spec": {"finalizers": ["x"]}, "status": {"phase": "Gone"}});
        RULES.prepare_for_create(&mut old, &request);
        assert_eq!(old.at(&["spec", "finalizers"]), Some(&value!(["x", "kubernetes"])));
        assert_eq!(old.str_at(&["status", "phase"]), Some("Active"));
        assert_eq!(old.str_at(&["metadata", "labels", NAME_LABEL]), Some("n"));

        let sent = value!({"metadata": {"name": "n"}, "spec": {}, "status": {"phase": "Terminating"}});
        let after = |sub: &str| {
            let mut new = sent.clone();
            RULES.prepare_for_update(sub, &mut new, &old, &request);
            (new.items_at(&["spec", "finalizers"]).len(), new.str_at(&["status", "phase"]).map(str::to_owned))
        };
        assert_eq!(after(""), (2, Some("Active".to_owned())));
        assert_eq!(after("status"), (2, Some("Terminating".to_owned())));
        assert_eq!(after("finalize"), (0, Some("Active".to_owned())));
    }
}
