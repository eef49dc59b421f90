//! Device taint rules: devices that pods should keep off.

use corten_api::{Value, time};

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, same, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, since, str_at, text, time_at};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    storage_version: "v1beta2",
    storage_prefix: "devicetaintrules",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Key", "The taint's key."),
        text("Value", "The taint's value."),
        text("Effect", "What the taint does to pods that do not tolerate it."),
        text("TimeAdded", "How long ago the taint was added."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let taint = |key: &str| str_at(object, &["spec", "taint", key]);
    let added = match time_at(object, TIME_ADDED) {
        Some(_) => since(object, TIME_ADDED, context),
        None => String::new(),
    };
    cells![name(object), taint("key"), taint("value"), taint("effect"), added, age(object, context)]
}

const TIME_ADDED: &[&str] = &["spec", "taint", "timeAdded"];

/// A taint with another effect is another taint: it is added now.
fn prepare_update(object: &mut Value, old: &Value, request: &Request<'_>) {
    keep_status(object, old, request);
    if !same(object, old, &["spec", "taint", "effect"]) && same(object, old, TIME_ADDED) {
        object.set(TIME_ADDED, time::format(request.now));
    }
}
