//! Daemon sets: a pod on every node. Changes of the template are counted apart, in an annotation.

mod validate;

use corten_api::Value;

use crate::defaults::{fill_absent, fill_zero, made, pod_template, text_of};
use crate::prepare::{copy, drop_status, keep_status, resets_spec_or_status, same, status_keeps_spec};
use crate::rules::{Generation, Request, RowContext, Rules};
use crate::selector::{labels, selector_cell};
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, age, cells, containers, int_at, integer, name, text};
use crate::validation::workload;

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "daemonsets",
    storage_prefix: "daemonsets",
    generation: Generation::SPEC,
    default,
    field_annotations: &[TEMPLATE_GENERATION_ANNOTATION],
    prepare_create,
    prepare_update,
    prepare_subresource,
    reset_fields: resets_spec_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    warnings: workload::template_warnings,
    columns: &[
        NAME,
        integer("Desired", "How many nodes should run a pod.")
            .of("apps/v1.DaemonSetStatus", "desiredNumberScheduled"),
        integer("Current", "How many of them do.").of("apps/v1.DaemonSetStatus", "currentNumberScheduled"),
        integer("Ready", "How many of those pods are ready.").of("apps/v1.DaemonSetStatus", "numberReady"),
        integer("Up-to-date", "How many run the newest template.")
            .of("apps/v1.DaemonSetStatus", "updatedNumberScheduled"),
        integer("Available", "How many have been ready long enough.")
            .of("apps/v1.DaemonSetStatus", "numberAvailable"),
        text("Node Selector", "Labels of the nodes that run a pod.").of("core/v1.PodSpec", "nodeSelector"),
        AGE,
        CONTAINERS,
        IMAGES,
        text("Selector", "Labels of the pods that are counted.")
            .of("apps/v1.DaemonSetSpec", "selector")
            .wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec", "containers"]);
    let number = |key: &str| int_at(object, &["status", key]);
    cells![
        name(object),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        labels(object.at(&["spec", "template", "spec", "nodeSelector"])),
        age(object, context),
        names,
        images,
        selector_cell(object.at(&["spec", "selector"])),
    ]
}

fn default(object: &mut Value) {
    object.set(TEMPLATE_GENERATION, template_generation(object).to_string());
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "revisionHistoryLimit", 10);
    let strategy = made(spec, "updateStrategy");
    fill_zero(strategy, "type", "RollingUpdate");
    if text_of(strategy, "type") == "RollingUpdate" {
        let rolling = made(strategy, "rollingUpdate");
        fill_absent(rolling, "maxUnavailable", 1);
        fill_absent(rolling, "maxSurge", 0);
    }
    pod_template(spec);
}

/// The annotation of the template's generation, which is no longer a field.
const TEMPLATE_GENERATION: &[&str] = &["metadata", "annotations", TEMPLATE_GENERATION_ANNOTATION];
const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    object.str_at(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn prepare_create(object: &mut Value, request: &Request<'_>) {
    drop_status(object, request);
    let generation = template_generation(object).max(1);
    object.set(TEMPLATE_GENERATION, generation.to_string());
}

fn prepare_update(object: &mut Value, old: &Value, request: &Request<'_>) {
    keep_status(object, old, request);
    let changed = !same(object, old, &["spec", "template"]);
    object.set(TEMPLATE_GENERATION, (template_generation(old) + i64::from(changed)).to_string());
}

fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, request: &Request<'_>) {
    status_keeps_spec(sub, object, old, request);
    if sub == "status" {
        copy(object, old, TEMPLATE_GENERATION);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_template_is_counted_apart() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let mut old = value!({"metadata": {"name": "d", "generation": 7}, "spec": {"template": {"a": 1}}});
        RULES.prepare_for_create(&mut old, &request);
        let counts = |set: &Value| (set.int_at(&["metadata", "generation"]), template_generation(set));
        assert_eq!(counts(&old), (Some(1), 1));

        let after = |change: fn(&mut Value)| {
            let mut new = old.clone();
            new.remove(TEMPLATE_GENERATION);
            change(&mut new);
            RULES.prepare_for_update("", &mut new, &old, &request);
            counts(&new)
        };
        assert_eq!(after(|_| {}), (Some(1), 1));
        assert_eq!(after(|s| s.set(&["spec", "minReadySeconds"], 5)), (Some(2), 1));
        assert_eq!(after(|s| s.set(&["spec", "template", "a"], 2)), (Some(2), 2));
    }
}
