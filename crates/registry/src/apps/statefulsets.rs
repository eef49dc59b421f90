//! Stateful sets: pods with names and volumes of their own. The name becomes part of host names, hence a
//! DNS label.

use corten_api::Value;

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, NameRule, RowContext, Rules, Scale};
use crate::selector::label_selector;
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, age, cells, containers, int_at, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "statefulsets",
    storage_prefix: "statefulsets",
    name: NameRule::DnsLabel,
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    columns: &[
        NAME,
        text("Ready", "How many pods are ready, of how many there should be."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    row,
    scale: Some(Scale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: |o| label_selector(o.at(&["spec", "selector"])).unwrap_or_default(),
    }),
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec", "containers"]);
    let (ready, desired) =
        (int_at(object, &["status", "readyReplicas"]), int_at(object, &["spec", "replicas"]));
    cells![name(object), format!("{ready}/{desired}"), age(object, context), names, images]
}
