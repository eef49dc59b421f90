//! Horizontal pod autoscalers: `v1` has only the CPU's utilization, and keeps the rest in annotations.
//!
//! The annotations hold JSON of upstream's own design: metrics in the shape they had in `v2beta1`, the
//! behavior with capital letters. Annotations that cannot be parsed are ignored.

use crate::json;
use crate::value::{Map, Str, Value};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The annotations above, and two former ones.
const ANNOTATIONS: &[&str] = &[
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The path of a member in `v2`, its name in `v1`, and true if `v1` writes it even when it is zero.
type Member = (&'static [&'static str], &'static str, bool);

/// The members of each kind of metric.
type Shapes = &'static [(&'static str, &'static [Member])];

const SPECS: Shapes = &[
    (
        "object",
        &[
            (&["describedObject"], "target", false),
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "selector", false),
            (&["target", "value"], "targetValue", true),
            (&["target", "averageValue"], "averageValue", false),
        ],
    ),
    (
        "pods",
        &[
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "selector", false),
            (&["target", "averageValue"], "targetAverageValue", true),
        ],
    ),
    ("resource", RESOURCE_SPEC),
    ("containerResource", RESOURCE_SPEC),
    (
        "external",
        &[
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "metricSelector", false),
            (&["target", "value"], "targetValue", false),
            (&["target", "averageValue"], "targetAverageValue", false),
        ],
    ),
];

const RESOURCE_SPEC: &[Member] = &[
    (&["name"], "name", false),
    (&["container"], "container", false),
    (&["target", "averageUtilization"], "targetAverageUtilization", false),
    (&["target", "averageValue"], "targetAverageValue", false),
];

const STATUSES: Shapes = &[
    (
        "object",
        &[
            (&["describedObject"], "target", false),
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "selector", false),
            (&["current", "value"], "currentValue", true),
            (&["current", "averageValue"], "averageValue", false),
        ],
    ),
    (
        "pods",
        &[
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "selector", false),
            (&["current", "averageValue"], "currentAverageValue", true),
        ],
    ),
    ("resource", RESOURCE_STATUS),
    ("containerResource", RESOURCE_STATUS),
    (
        "external",
        &[
            (&["metric", "name"], "metricName", false),
            (&["metric", "selector"], "metricSelector", false),
            (&["current", "value"], "currentValue", true),
            (&["current", "averageValue"], "currentAverageValue", false),
        ],
    ),
];

const RESOURCE_STATUS: &[Member] = &[
    (&["name"], "name", false),
    (&["container"], "container", false),
    (&["current", "averageUtilization"], "currentAverageUtilization", false),
    (&["current", "averageValue"], "currentAverageValue", true),
];

pub(super) fn v2_to_v1(hpa: &mut Value) {
    drop_annotations(hpa);
    let metrics = taken(hpa, &["spec", "metrics"]);
    let (cpu, others): (Vec<_>, Vec<_>) =
        metrics.into_iter().partition(|m| cpu_utilization(m, "target").is_some());
    if let Some(utilization) = cpu.first().and_then(|m| cpu_utilization(m, "target")) {
        hpa.set(&["spec", "targetCPUUtilizationPercentage"], utilization);
    }
    annotate(hpa, METRICS, others.iter().map(|m| to_v1(m, SPECS)).collect());

    let current = taken(hpa, &["status", "currentMetrics"]);
    if let Some(utilization) = current.iter().rev().find_map(|m| cpu_utilization(m, "current")) {
        hpa.set(&["status", "currentCPUUtilizationPercentage"], utilization);
    }
    // All of them: the metric of the CPU has a raw value too.
    annotate(hpa, CURRENT_METRICS, current.iter().map(|m| to_v1(m, STATUSES)).collect());
    let conditions = taken(hpa, &["status", "conditions"]);
    annotate(hpa, CONDITIONS, conditions);

    if let Some(behavior) = hpa.remove(&["spec", "behavior"]) {
        let text = in_order(&capitalized(&behavior));
        hpa.set(&["metadata", "annotations", BEHAVIOR], text);
    }
}

pub(super) fn v1_to_v2(hpa: &mut Value) {
    let cpu = hpa.remove(&["spec", "targetCPUUtilizationPercentage"]);
    let current = hpa.remove(&["status", "currentCPUUtilizationPercentage"]);
    let mut metrics: Vec<Value> = annotation(hpa, METRICS).iter().flatten().map(spec_to_v2).collect();
    metrics.extend(cpu.map(|utilization| cpu_metric("target", utilization)));
    if !metrics.is_empty() {
        hpa.set(&["spec", "metrics"], metrics);
    }

    let known = annotation(hpa, CURRENT_METRICS);
    let current = match known {
        Some(list) => list.iter().map(|m| to_v2(m, STATUSES)).collect(),
        None => current.map(|utilization| cpu_metric("current", utilization)).into_iter().collect::<Vec<_>>(),
    };
    if !current.is_empty() {
        hpa.set(&["status", "currentMetrics"], current);
    }
    if let Some(conditions) = annotation(hpa, CONDITIONS) {
        hpa.set(&["status", "conditions"], conditions);
    }
    if let Some(behavior) = annotation_value(hpa, BEHAVIOR).map(|v| lowered(&v))
        && behavior.as_object().is_some_and(|b| !b.is_empty())
    {
        hpa.set(&["spec", "behavior"], behavior);
    }
    drop_annotations(hpa);
}

/// Removes and returns the list at a path of the object.
fn taken(hpa: &mut Value, path: &[&str]) -> Vec<Value> {
    match hpa.remove(path) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn annotate(hpa: &mut Value, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        hpa.set(&["metadata", "annotations", name], in_order(&Value::Array(list)));
    }
}

/// The members of all objects in the annotations, in the order of upstream's Go types.
const ORDER: &[&str] = &[
    "type",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "observedGeneration",
    "kind",
    "name",
    "apiVersion",
    "target",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetAverageValue",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// The text of an annotation: clients see it, and it differs from another order as a text does.
fn in_order(value: &Value) -> String {
    let mut out = String::new();
    write_in_order(value, &mut out);
    out
}

fn write_in_order(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write_in_order(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut members: Vec<(&Str, &Value)> = map.iter().collect();
            members.sort_by_key(|(key, _)| ORDER.iter().position(|name| key.is(name)).unwrap_or(ORDER.len()));
            out.push('{');
            for (i, (key, member)) in members.into_iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                out.push_str(&json::write_to_string(&Value::String(key.clone())));
                out.push(':');
                match key.as_str() {
                    // Its keys are labels.
                    "matchLabels" => out.push_str(&json::write_to_string(member)),
                    _ => write_in_order(member, out),
                }
            }
            out.push('}');
        }
        _ => out.push_str(&json::write_to_string(value)),
    }
}

fn annotation_value(hpa: &Value, name: &str) -> Option<Value> {
    json::parse(hpa.str_at(&["metadata", "annotations", name])?.as_bytes()).ok()
}

fn annotation(hpa: &Value, name: &str) -> Option<Vec<Value>> {
    match annotation_value(hpa, name)? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

fn drop_annotations(hpa: &mut Value) {
    if let Some(Value::Object(annotations)) = hpa.get_mut("metadata").and_then(|m| m.get_mut("annotations")) {
        annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    }
}

/// The average utilization of the CPU, if the metric is about that.
fn cpu_utilization(metric: &Value, place: &str) -> Option<i64> {
    let about_cpu =
        metric.str_at(&["type"]) == Some("Resource") && metric.str_at(&["resource", "name"]) == Some("cpu");
    metric.int_at(&["resource", place, "averageUtilization"]).filter(|_| about_cpu)
}

fn cpu_metric(place: &str, utilization: Value) -> Value {
    let mut metric = Value::object();
    metric.set(&["type"], "Resource");
    metric.set(&["resource", "name"], "cpu");
    metric.set(&["resource", place, "averageUtilization"], utilization);
    if place == "target" {
        metric.set(&["resource", place, "type"], "Utilization");
    }
    metric
}

fn to_v1(metric: &Value, shapes: Shapes) -> Value {
    let mut out = Value::object();
    out.set(&["type"], metric.get("type").cloned().unwrap_or_default());
    for (source, members) in shapes {
        let Some(from) = metric.get(source) else { continue };
        let mut made = Map::new();
        for (path, name, always) in *members {
            match from.at(path) {
                Some(value) => made.insert(*name, value.clone()),
                None if *always => made.insert(*name, "0"),
                None => None,
            };
        }
        out.set(&[source], made);
    }
    out
}

fn to_v2(metric: &Value, shapes: Shapes) -> Value {
    let mut out = Value::object();
    out.set(&["type"], metric.get("type").cloned().unwrap_or_default());
    for (source, members) in shapes {
        let Some(from) = metric.get(source) else { continue };
        let mut made = Value::object();
        for (path, name, _) in *members {
            if let Some(value) = from.get(name) {
                made.set(path, value.clone());
            }
        }
        out.set(&[source], made);
    }
    out
}

/// Besides its members, a spec in `v2` has a type of its target.
fn spec_to_v2(metric: &Value) -> Value {
    let mut out = to_v2(metric, SPECS);
    for (source, _) in SPECS {
        let Some(made) = out.get_mut(source) else { continue };
        let has = |name| made.at(&["target", name]).is_some();
        let target = match *source {
            "object" if has("averageValue") => "AverageValue",
            "object" => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        // `v1` cannot leave an object's value out.
        if *source == "object" && target == "AverageValue" && made.str_at(&["target", "value"]) == Some("0") {
            made.remove(&["target", "value"]);
        }
        made.set(&["target", "type"], target);
    }
    out
}

/// The behavior's members, and theirs, with capital letters and with nulls for what is absent.
fn capitalized(behavior: &Value) -> Value {
    const RULES: &[&str] = &["policies", "selectPolicy", "stabilizationWindowSeconds", "tolerance"];
    let mut out = Value::object();
    for direction in ["scaleUp", "scaleDown"] {
        let rules = match behavior.get(direction) {
            None => Value::Null,
            Some(rules) => {
                let mut made = Map::new();
                for name in RULES {
                    made.insert(capital(name), recased(rules.get(name).unwrap_or(&Value::Null), capital));
                }
                Value::Object(made)
            }
        };
        out.set(&[capital(direction).as_str()], rules);
    }
    out
}

fn lowered(behavior: &Value) -> Value {
    let mut out = recased(behavior, lower);
    if let Value::Object(directions) = &mut out {
        directions.retain(|_, rules| !rules.is_null());
        for (_, rules) in directions.iter_mut() {
            if let Value::Object(rules) = rules {
                rules.retain(|_, value| !value.is_null());
            }
        }
    }
    out
}

/// The same tree with its keys spelled differently.
fn recased(value: &Value, spell: fn(&str) -> Str) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(|item| recased(item, spell)).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (spell(key), recased(value, spell))).collect())
        }
        other => other.clone(),
    }
}

fn capital(name: &str) -> Str {
    first_as(name, char::to_ascii_uppercase)
}

fn lower(name: &str) -> Str {
    first_as(name, char::to_ascii_lowercase)
}

fn first_as(name: &str, case: fn(&char) -> char) -> Str {
    let mut chars = name.chars();
    chars.next().map(|first| case(&first)).into_iter().chain(chars).collect::<String>().into()
}
