//! Deployments: one template rolled out after another. Annotations count as a change, because rollouts are
//! requested with them.

pub(crate) mod validate;

use corten_api::Value;

use crate::defaults::{fill_absent, fill_zero, made, pod_template, text_of};
use crate::prepare::{copy, drop_status, keep_status, status_keeps_spec};
use crate::rules::{Generation, Path, Request, RowContext, Rules, Scale};
use crate::selector::label_selector;
use crate::table::{AGE, CONTAINERS, IMAGES, NAME, age, cells, containers, int_at, name, text};
use crate::validation::workload;

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "deployments",
    storage_prefix: "deployments",
    generation: Generation { initial: 1, counts: &[&["spec"], &["metadata", "annotations"]] },
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource,
    reset_fields,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    warnings: workload::warnings,
    columns: &[
        NAME,
        text("Ready", "Number of the pod with ready state"),
        text("Up-to-date", "How many run the newest template.")
            .of("apps/v1.DeploymentStatus", "updatedReplicas"),
        text("Available", "How many have been ready long enough.")
            .of("apps/v1.DeploymentStatus", "availableReplicas"),
        AGE,
        CONTAINERS,
        IMAGES,
        text("Selector", "Labels of the pods that are counted.")
            .of("apps/v1.DeploymentSpec", "selector")
            .wide(),
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
    let number = |key: &str| int_at(object, &["status", key]);
    let selector = label_selector(object.at(&["spec", "selector"]));
    cells![
        name(object),
        format!("{}/{}", number("readyReplicas"), int_at(object, &["spec", "replicas"])),
        number("updatedReplicas"),
        number("availableReplicas"),
        age(object, context),
        names,
        images,
        selector.unwrap_or_else(|| "<invalid>".to_owned()),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "replicas", 1);
    fill_absent(spec, "revisionHistoryLimit", 10);
    fill_absent(spec, "progressDeadlineSeconds", 600);
    let strategy = made(spec, "strategy");
    fill_zero(strategy, "type", "RollingUpdate");
    if text_of(strategy, "type") == "RollingUpdate" {
        let rolling = made(strategy, "rollingUpdate");
        fill_absent(rolling, "maxUnavailable", "25%");
        fill_absent(rolling, "maxSurge", "25%");
    }
    pod_template(spec);
}

fn prepare_subresource(sub: &str, object: &mut Value, old: &Value, request: &Request<'_>) {
    status_keeps_spec(sub, object, old, request);
    if sub == "status" {
        copy(object, old, &["metadata", "labels"]);
    }
}

fn reset_fields(sub: &str) -> &'static [Path] {
    match sub {
        "" => &[&["status"]],
        "status" => &[&["spec"], &["metadata", "labels"]],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn generation_counts_spec_and_annotations_but_not_status() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let old = value!({
            "metadata": {"name": "d", "generation": 3, "labels": {"a": "1"}},
            "spec": {"replicas": 1}, "status": {"replicas": 1},
        });
        let after = |sub: &str, change: fn(&mut Value)| {
            let mut new = old.clone();
            new.set(&["metadata", "generation"], 99);
            change(&mut new);
            RULES.prepare_for_update(sub, &mut new, &old, &request);
            new
        };
        let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
        assert_eq!(generation(&after("", |_| {})), Some(3));
        assert_eq!(generation(&after("", |d| d.set(&["spec", "replicas"], 2))), Some(4));
        assert_eq!(
            generation(&after("", |d| d.set(&["metadata", "annotations"], value!({"x": "y"})))),
            Some(4)
        );
        assert_eq!(generation(&after("", |d| d.set(&["metadata", "labels"], value!({"x": "y"})))), Some(3));
        assert_eq!(after("", |d| d.set(&["status", "replicas"], 9)).get("status"), old.get("status"));

        let reported = after("status", |d| {
            d.set(&["status", "replicas"], 9);
            d.set(&["spec", "replicas"], 9);
            d.set(&["metadata", "labels"], value!({"x": "y"}));
            d.set(&["metadata", "annotations"], value!({"x": "y"}));
        });
        assert_eq!(generation(&reported), Some(3));
        assert_eq!(reported.int_at(&["status", "replicas"]), Some(9));
        assert_eq!(reported.int_at(&["spec", "replicas"]), Some(1));
        assert_eq!(reported.str_at(&["metadata", "labels", "a"]), Some("1"));
        assert_eq!(reported.str_at(&["metadata", "annotations", "x"]), Some("y"));
    }
}
