//! Horizontal pod autoscalers; v1 is a view of the stored v2.

mod metrics;
mod validate;

use corten_api::{Map, Value, value};

use crate::defaults::{child, fill_absent, is_zero, made};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{
    AGE, NAME, NONE, UNKNOWN, UNSET, age, cells, int_at, name, present, quantity, str_at, text,
};

pub(crate) const RULES: Rules = Rules {
    group: "autoscaling",
    resource: "horizontalpodautoscalers",
    storage_version: "v2",
    storage_prefix: "horizontalpodautoscalers",
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: validate::validate_subresource,
    columns: &[
        NAME,
        text("Reference", "What is scaled.")
            .of("autoscaling/v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"),
        text("Targets", "Current and target value of each metric.")
            .of("autoscaling/v2.HorizontalPodAutoscalerSpec", "metrics"),
        text("MinPods", "The fewest pods it scales to.")
            .of("autoscaling/v2.HorizontalPodAutoscalerSpec", "minReplicas"),
        text("MaxPods", "The most pods it scales to.")
            .of("autoscaling/v2.HorizontalPodAutoscalerSpec", "maxReplicas"),
        text("Replicas", "How many pods there are.")
            .of("autoscaling/v2.HorizontalPodAutoscalerStatus", "currentReplicas"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let target = |key: &str| str_at(object, &["spec", "scaleTargetRef", key]);
    let fewest = object.int_at(&["spec", "minReplicas"]);
    cells![
        name(object),
        format!("{}/{}", target("kind"), target("name")),
        shown_metrics(object),
        fewest.map_or_else(|| UNSET.to_owned(), |n| n.to_string()),
        int_at(object, &["spec", "maxReplicas"]),
        int_at(object, &["status", "currentReplicas"]),
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_absent(spec, "minReplicas", 1);
    if is_zero(spec, "metrics") {
        let target = value!({"type": "Utilization", "averageUtilization": DEFAULT_UTILIZATION});
        let metric = value!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics", vec![metric]);
    }
    if let Some(behavior) = child(spec, "behavior") {
        let up = made(behavior, "scaleUp");
        fill_absent(up, "stabilizationWindowSeconds", 0);
        scaling_rules(up, &[("Pods", 4), ("Percent", 100)]);
        // The stabilization window of scaling down is configured in the controller.
        scaling_rules(made(behavior, "scaleDown"), &[("Percent", 100)]);
    }
}

/// Percent of the CPU requests of pods.
const DEFAULT_UTILIZATION: i32 = 80;

/// The policies limit changes within 15 seconds.
fn scaling_rules(rules: &mut Map, policies: &[(&str, i32)]) {
    fill_absent(rules, "selectPolicy", "Max");
    if is_zero(rules, "policies") {
        let policy = |&(kind, most): &(&str, i32)| value!({"type": kind, "value": most, "periodSeconds": 15});
        rules.insert("policies", policies.iter().map(policy).collect::<Vec<_>>());
    }
}

/// The first metrics as `current/target`, and the number of the others.
fn shown_metrics(object: &Value) -> String {
    const MOST: usize = 2;
    let specs = object.items_at(&["spec", "metrics"]);
    let current = object.items_at(&["status", "currentMetrics"]);
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let shown = specs.iter().enumerate().take(MOST).map(|(i, spec)| metric(spec, current.get(i)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match specs.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let part = match str_at(spec, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let source = spec.get(part).unwrap_or(&Value::Null);
    // The current value is unknown until the metric's status is of the same kind.
    let current = status.and_then(|s| s.get(part)).filter(|s| !s.is_null());
    let amount = |key: &str, needed: bool| match current {
        Some(current) if !needed || present(current, &["current", key]) => {
            quantity(current, &["current", key])
        }
        _ => UNKNOWN.to_owned(),
    };
    let percent = |number: Option<i64>, otherwise: &str| {
        number.map_or_else(|| otherwise.to_owned(), |n| format!("{n}%"))
    };
    let average = present(source, &["target", "averageValue"]);
    let target = |key: &str| quantity(source, &["target", key]);
    match part {
        "pods" => format!("{}/{}", amount("averageValue", false), target("averageValue")),
        "external" | "object" if average => {
            format!("{}/{} (avg)", amount("averageValue", true), target("averageValue"))
        }
        "external" | "object" => format!("{}/{}", amount("value", false), target("value")),
        _ => {
            let resource = str_at(source, &["name"]);
            if average {
                return format!("{resource}: {}/{}", amount("averageValue", false), target("averageValue"));
            }
            let now = current.and_then(|c| c.int_at(&["current", "averageUtilization"]));
            let wanted = source.int_at(&["target", "averageUtilization"]);
            format!("{resource}: {}/{}", percent(now, UNKNOWN), percent(wanted, "<auto>"))
        }
    }
}
