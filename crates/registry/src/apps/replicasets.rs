//! Replica sets: a number of pods of one template.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::apps::deployments::validate::validate_replicated_template;
use crate::defaults::{fill_absent, made, pod_template};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Column, Generation, RowContext, Rules, Scale};
use crate::selector::{label_selector, selector_cell};
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, age, cells, containers, int_at, integer, name, text};
use crate::validation::fields::{non_negative, part};
use crate::validation::workload::{self, at_most, validate_selector_is_immutable};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "replicasets",
    storage_prefix: "replicasets",
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create,
    validate_update,
    validate_subresource: |sub, set, _, errors| validate_status(sub, set, errors),
    warnings: workload::warnings,
    columns: COLUMNS,
    row: |set, context| row(set, context, selector_cell(set.at(&["spec", "selector"]))),
    scale: Some(Scale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: |o| label_selector(o.at(&["spec", "selector"])).unwrap_or_default(),
    }),
    ..Rules::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many pods there should be.").of("apps/v1.ReplicaSetSpec", "replicas"),
    integer("Current", "How many pods there are.").of("apps/v1.ReplicaSetStatus", "replicas"),
    integer("Ready", "How many of them are ready.").of("apps/v1.ReplicaSetStatus", "readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    text("Selector", "Labels of the pods that are counted.").of("apps/v1.ReplicaSetSpec", "selector").wide(),
];

/// The row of a replica set or replication controller; the two spell their selectors differently.
pub(crate) fn row(object: &Value, context: &RowContext<'_>, selector: impl Into<Value>) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec", "containers"]);
    cells![
        name(object),
        int_at(object, &["spec", "replicas"]),
        int_at(object, &["status", "replicas"]),
        int_at(object, &["status", "readyReplicas"]),
        age(object, context),
        names,
        images,
        selector.into(),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "replicas", 1);
    pod_template(spec);
}

fn validate_create(set: &Value, errors: &mut ErrorList) {
    validate(set, None, errors);
}

fn validate_update(set: &Value, old: &Value, errors: &mut ErrorList) {
    validate(set, Some(part(old, "spec")), errors);
    validate_selector_is_immutable(set, old, errors);
}

fn validate(set: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (part(set, "spec"), Field::new("spec"));
    non_negative(spec, "replicas", &at, errors);
    non_negative(spec, "minReadySeconds", &at, errors);
    validate_replicated_template(spec, old, &at, errors);
}

/// The counts of replicas, which replication controllers report alike.
pub(crate) fn validate_status(sub: &str, set: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(set, "status"), Field::new("status"));
    for key in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ] {
        non_negative(status, key, &at, errors);
    }
    let why = "cannot be greater than status.replicas";
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(status, key, "replicas", why, errors);
    }
    at_most(status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas", errors);
}
