//! Replication controllers: replica sets with a plain selector. Deleting one orphans its pods by default.

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Str, Value};

use crate::apps::replicasets::{row, validate_status};
use crate::defaults::{child, is_zero, made, pod_spec, template_labels};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{GarbageCollection, Generation, NameRule, Rules, Scale, Selectable};
use crate::selector::{label_set, labels};
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, int_at, integer, text};
use crate::validation::fields::{non_negative, part};
use crate::validation::text::member;
use crate::validation::workload::{self, validate_restarting_template, validate_selector_matches};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "replicationcontrollers",
    storage_prefix: "controllers",
    name: NameRule::LongName,
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: |controller, errors| validate(controller, None, errors),
    validate_update: |controller, old, errors| validate(controller, Some(part(old, "spec")), errors),
    validate_subresource: |sub, controller, _, errors| validate_status(sub, controller, errors),
    warnings,
    garbage_collection: GarbageCollection::Orphan,
    selectable: &[Selectable {
        label: "status.replicas",
        value: |o| Str::from(int_at(o, &["status", "replicas"]).to_string()),
    }],
    columns: &[
        NAME,
        integer("Desired", "How many pods there should be.")
            .of("core/v1.ReplicationControllerSpec", "replicas"),
        integer("Current", "How many pods there are.").of("core/v1.ReplicationControllerStatus", "replicas"),
        integer("Ready", "How many of them are ready.")
            .of("core/v1.ReplicationControllerStatus", "readyReplicas"),
        AGE,
        CONTAINERS,
        IMAGES,
        text("Selector", "Labels of the pods that are counted.")
            .of("core/v1.ReplicationControllerSpec", "selector")
            .wide(),
    ],
    row: |controller, context| row(controller, context, labels(controller.at(&["spec", "selector"]))),
    scale: Some(Scale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: |o| label_set(o.at(&["spec", "selector"])),
    }),
    ..Rules::DEFAULT
};

/// Warnings about a new controller, or about the template that a change replaces: upstream confuses the two.
fn warnings(controller: &Value, old: Option<&Value>) -> Vec<String> {
    match old {
        None => workload::warnings(controller, None),
        Some(old) => workload::template_warnings(old, Some(controller)),
    }
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    labels_of_template(object);
    if let Some(template) = child(made(object, "spec"), "template") {
        pod_spec(made(template, "spec"));
    }
}

/// A controller without labels or selector gets those of its template.
fn labels_of_template(object: &mut Map) {
    let spec = made(object, "spec");
    let labels = spec.get("template").and_then(|template| template.at(&["metadata", "labels"]));
    if is_zero(spec, "selector")
        && let Some(labels) = labels.cloned()
    {
        spec.insert("selector", labels);
    }
    template_labels(object);
}

fn validate(controller: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (part(controller, "spec"), Field::new("spec"));
    non_negative(spec, "minReadySeconds", &at, errors);
    let selector = spec.get("selector").and_then(Value::as_object).filter(|labels| !labels.is_empty());
    if selector.is_none() {
        errors.required(at.child("selector"), "");
    }
    if member(spec, "replicas").is_none() {
        errors.required(at.child("replicas"), "");
    }
    non_negative(spec, "replicas", &at, errors);
    let at = at.child("template");
    let Some(template) = member(spec, "template") else {
        errors.required(at, "");
        return;
    };
    if let Some(labels) = selector {
        validate_selector_matches(template, &LabelSelector::from_labels(labels), &at, errors);
    }
    validate_restarting_template(spec, old, "ReplicationController", &at, errors);
}
