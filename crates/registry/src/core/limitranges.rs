//! Limit ranges: limits and defaults for resources in a namespace.

use corten_api::quantity::{Format, Quantity};
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::defaults::{copy_missing, items, made, resource_list, text_of};
use crate::rules::{Request, Rules};
use crate::table::str_at;
use crate::validation::fields::entries;
use crate::validation::repeats::Repeats;
use crate::validation::resources::{
    amount, is_overcommit_allowed, validate_container_resource_name, validate_resource_name,
};
use crate::validation::text::{complain, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "limitranges",
    prefix_on_update: true,
    storage_prefix: "limitranges",
    default,
    prepare_create,
    validate_create: validate,
    validate_update: |object, _, errors| validate(object, errors),
    create_on_update: true,
    ..Rules::DEFAULT
};

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for item in items(made(object, "spec"), "limits") {
        if text_of(item, "type") == "Container" {
            copy_missing(item, "max", "default");
            copy_missing(item, "default", "defaultRequest");
            copy_missing(item, "min", "defaultRequest");
        }
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            resource_list(item, list);
        }
    }
}

/// A limit range without a name gets its uid as name.
fn prepare_create(object: &mut Value, _: &Request<'_>) {
    let uid = object.at(&["metadata", "uid"]).cloned();
    if let Some(uid) = uid.filter(|_| str_at(object, &["metadata", "name"]).is_empty()) {
        object.set(&["metadata", "name"], uid);
    }
}

const BOUNDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn validate(object: &Value, errors: &mut ErrorList) {
    let (spec, limits) = (Field::new("spec"), object.items_at(&["spec", "limits"]));
    let at = spec.child("limits");
    let repeats = Repeats::of(limits, |item| text(item, "type"));
    for (i, limit) in limits.iter().enumerate() {
        let (at, kind) = (at.index(i), text(limit, "type"));
        validate_type(kind, &at.child("type"), errors);
        if repeats.at(i) {
            errors.duplicate(at.child("type"), &Value::from(kind));
        }
        validate_names(limit, &at, errors);
        let mut names: Vec<&str> =
            used_bounds(kind).flat_map(|key| entries(limit, key)).map(|(n, _)| n).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            validate_bounds(limit, name, &at, errors);
        }
    }
}

fn validate_type(kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let complaints = names::qualified_name(kind);
    let standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if complaints.is_empty() && !kind.contains('/') && !standard {
        errors.invalid(at, &Value::from(kind), "must be a standard limit type or fully qualified");
    }
    complain(at, kind, complaints, errors);
}

/// Pods have no defaults of their own.
fn used_bounds(kind: &str) -> impl Iterator<Item = &'static str> {
    let pod = kind == "Pod";
    BOUNDS.into_iter().filter(move |key| !(pod && key.starts_with("default")))
}

fn validate_names(limit: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(limit, "type");
    for key in BOUNDS {
        let at_key = at.child(key);
        if key == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let has = |bound: &str| limit.at(&[bound, "storage"]).is_some();
            if !has("min") && !has("max") {
                let why = "either minimum or maximum storage value is required, but neither was provided";
                errors.required(at.child("limits"), why);
            }
        }
        if kind == "Pod" && key.starts_with("default") {
            if entries(limit, key).next().is_some() {
                errors.forbidden(at_key, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in entries(limit, key) {
            match kind {
                "Pod" | "Container" => validate_container_resource_name(name, &at_key.key(name), errors),
                _ => {
                    validate_resource_name(name, &at_key.key(name), errors);
                }
            }
        }
    }
}

/// The consistency of the bounds of one resource.
fn validate_bounds(limit: &Value, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let bound = |key: &str| {
        let used = used_bounds(text(limit, "type")).any(|used| used == key);
        limit.at(&[key, name]).filter(|_| used).map(amount)
    };
    let (max, min, ratio) = (bound("max"), bound("min"), bound("maxLimitRequestRatio"));
    let (limit_default, request) = (bound("default"), bound("defaultRequest"));
    let mut refuse = |key: &str, shown: Quantity, why: String| {
        errors.invalid(at.child(key).key(name), &Value::from(shown.to_str()), why);
    };
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        refuse("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let (Some(request), Some(min)) = (request, min)
        && min > request
    {
        let why = format!("min value {min} is greater than default request value {request}");
        refuse("defaultRequest", request, why);
    }
    if let (Some(request), Some(max)) = (request, max)
        && request > max
    {
        let why = format!("default request value {request} is greater than max value {max}");
        refuse("defaultRequest", request, why);
    }
    if let (Some(request), Some(default)) = (request, limit_default)
        && request > default
    {
        let why = format!("default request value {request} is greater than default limit value {default}");
        refuse("defaultRequest", request, why);
    }
    if let (Some(default), Some(min)) = (limit_default, min)
        && min > default
    {
        refuse("default", min, format!("min value {min} is greater than default value {default}"));
    }
    if let (Some(default), Some(max)) = (limit_default, max)
        && default > max
    {
        refuse("default", max, format!("default value {default} is greater than max value {max}"));
    }
    if let Some(ratio) = ratio {
        if ratio < Quantity::new(1, Format::DecimalSi) {
            refuse("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (min, max)
            && let Some(most) = reachable_ratio(ratio, min, max)
        {
            let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
            refuse("maxLimitRequestRatio", ratio, why);
        }
    }
    if let (Some(default), Some(request)) = (limit_default, request)
        && !is_overcommit_allowed(name)
        && default != request
    {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        refuse("defaultRequest", request, why);
    }
}

/// The greatest ratio that the bounds allow, if it is less than the required one. Thousandths are used where
/// they fit.
fn reachable_ratio(ratio: Quantity, min: Quantity, max: Quantity) -> Option<f64> {
    const MOST: i64 = i64::MAX / 1000;
    let fine = [ratio, min, max].iter().all(|quantity| quantity.value() < MOST);
    let (asked, min, max) = match fine {
        true => (ratio.milli_value() as f64 / 1000.0, min.milli_value(), max.milli_value()),
        false => (ratio.value() as f64, min.value(), max.value()),
    };
    let most = max as f64 / min as f64;
    (asked > most).then_some(most)
}
