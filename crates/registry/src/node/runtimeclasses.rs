//! Runtime classes: handlers of the container runtime.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};
use crate::validation::fields::{entries, immutable_unshown, part};
use crate::validation::internal_form;
use crate::validation::label_selector::validate_labels;
use crate::validation::repeats::Repeats;
use crate::validation::resources::{validate_container_resource_name, validate_quantity};
use crate::validation::text::{complain, list, text as text_of};
use crate::validation::toleration::validate_tolerations;

pub(crate) const RULES: Rules = Rules {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    prefix_on_update: true,
    storage_prefix: "runtimeclasses",
    qualified_finalizers: false,
    validate_create,
    validate_update,
    unconditional_update: false,
    create_on_update: true,
    columns: &[NAME, text("Handler", ""), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["handler"]), age(object, context)]
}

fn validate_create(class: &Value, errors: &mut ErrorList) {
    validate_parts(class, errors);
    validate_handler(class, errors);
}

fn validate_parts(class: &Value, errors: &mut ErrorList) {
    let overhead = Field::new("overhead");
    let at = overhead.child("limits");
    for (name, amount) in entries(part(class, "overhead"), "podFixed") {
        validate_container_resource_name(name, &at.key(name), errors);
        validate_quantity(name, amount, &at.key(name), errors);
    }
    let (scheduling, at) = (part(class, "scheduling"), Field::new("scheduling"));
    validate_labels(scheduling.get("nodeSelector"), &at.child("nodeSelector"), errors);
    validate_unique_tolerations(list(scheduling, "tolerations"), &at.child("tolerations"), errors);
}

/// The handler is immutable. That it is missing is said last.
fn validate_update(class: &Value, old: &Value, errors: &mut ErrorList) {
    validate_parts(class, errors);
    let is_missing = text_of(class, "handler").is_empty();
    if !is_missing {
        validate_handler(class, errors);
    }
    immutable_unshown(class, old, "handler", &Field::ROOT, errors);
    if is_missing {
        validate_handler(class, errors);
    }
}

fn validate_handler(class: &Value, errors: &mut ErrorList) {
    match text_of(class, "handler") {
        "" => errors.required("handler", ""),
        handler => complain(&Field::new("handler"), handler, names::dns1123_label(handler), errors),
    }
}

fn validate_unique_tolerations(tolerations: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    validate_tolerations(tolerations, at, errors);
    let parts = ["key", "operator", "value", "effect"];
    let repeats = Repeats::of(tolerations, |toleration| parts.map(|key| text_of(toleration, key)));
    for (i, toleration) in tolerations.iter().enumerate() {
        if repeats.at(i) {
            errors.duplicate_shown(at.index(i), internal_form::compact("Toleration", toleration));
        }
    }
}
