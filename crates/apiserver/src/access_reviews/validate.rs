//! Whether an access review asks something that can be answered.

use corten_api::status::ErrorList;
use corten_api::{Map, Str, Value, json, meta, names};

const META_ORDER: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const ENTRY_ORDER: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Checks a review of any kind.
pub(super) fn validate(resource: &str, review: &Value, errors: &mut ErrorList) {
    let empty = Value::object();
    let spec = review.get("spec").unwrap_or(&empty);
    let part = |key| spec.get(key).filter(|part: &&Value| !part.is_null());
    let (about, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    if about.is_some() == path.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid_shown("spec", shown_path(path), why);
    }
    let nobody = spec.str_at(&["user"]).is_none_or(str::is_empty) && spec.items_at(&["groups"]).is_empty();
    if resource != "selfsubjectaccessreviews" && nobody {
        errors.invalid("spec.user", &Value::from(""), "at least one of user or group must be specified");
    }
    if let Some(about) = about {
        validate_selector(about, "fieldSelector", validate_field_requirement, errors);
        validate_selector(about, "labelSelector", validate_label_requirement, errors);
    }
    let local = resource == "localsubjectaccessreviews";
    validate_metadata(review, local, errors);
    if local {
        let namespace = about.map(|about| about.str_at(&["namespace"]).unwrap_or_default());
        if let Some(namespace) = namespace.filter(|namespace| *namespace != meta::namespace(review)) {
            let field = "spec.resourceAttributes.namespace";
            errors.invalid(field, &Value::from(namespace), "must match metadata.namespace");
        }
        if path.is_some() {
            let why = "disallowed on this kind of request";
            errors.invalid_shown("spec.nonResourceAttributes", shown_path(path), why);
        }
    }
}

/// Upstream shows its own form of what was asked, which has other names.
fn shown_path(path: Option<&Value>) -> String {
    let Some(path) = path else { return "null".to_owned() };
    let text = |key| json::write_to_string(&Value::from(path.str_at(&[key]).unwrap_or_default()));
    format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb"))
}

fn validate_metadata(review: &Value, local: bool, errors: &mut ErrorList) {
    let Some(metadata) = review.get("metadata").and_then(Value::as_object) else { return };
    let allowed = |key: &str| key == "managedFields" || (local && key == "namespace");
    let blank = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if metadata.iter().all(|(key, value)| allowed(key) || blank(value)) {
        return;
    }
    let why = if local { "must be empty except for namespace" } else { "must be empty" };
    let entry = |entry: &Value| in_order(entry.as_object(), &ENTRY_ORDER);
    let mut shown = metadata.clone();
    if let Some(owners) = shown.get_mut("managedFields") {
        let entries: Vec<String> = owners.as_array().unwrap_or_default().iter().map(entry).collect();
        *owners = Value::Raw(Str::from(format!("[{}]", entries.join(","))));
    }
    errors.invalid_shown("metadata", in_order(Some(&shown), &META_ORDER), why);
}

/// An object with its members in the order of their declaration.
fn in_order(map: Option<&Map>, order: &[&str]) -> String {
    let member = |key: &&str| {
        let value = map?.get(key)?;
        Some(format!("\"{key}\":{}", json::write_to_string(value)))
    };
    format!("{{{}}}", order.iter().filter_map(member).collect::<Vec<_>>().join(","))
}

fn validate_selector(
    about: &Value,
    key: &str,
    validate_requirement: fn(&Value, &str, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let Some(selector) = about.get(key).filter(|selector| !selector.is_null()) else { return };
    let field = format!("spec.resourceAttributes.{key}");
    let raw = selector.str_at(&["rawSelector"]).unwrap_or_default();
    let requirements = selector.items_at(&["requirements"]);
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.invalid(format!("{field}.rawSelector"), &Value::from(raw), why);
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {field} is specified, requirements or rawSelector is required");
        errors.required(format!("{field}.requirements"), why);
    }
    for (i, requirement) in requirements.iter().enumerate() {
        validate_requirement(requirement, &format!("{field}.requirements[{i}]"), errors);
    }
}

fn validate_values(requirement: &Value, field: &str, errors: &mut ErrorList) {
    let values = requirement.items_at(&["values"]);
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            errors
                .required(format!("{field}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(format!("{field}.values"), why);
        }
        _ => {}
    }
}

fn validate_field_requirement(requirement: &Value, field: &str, errors: &mut ErrorList) {
    if requirement.str_at(&["key"]).is_none_or(str::is_empty) {
        errors.required(format!("{field}.key"), "must be specified");
    }
    validate_values(requirement, field, errors);
}

fn validate_label_requirement(requirement: &Value, field: &str, errors: &mut ErrorList) {
    validate_values(requirement, field, errors);
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    for why in names::qualified_name(key) {
        errors.invalid(format!("{field}.key"), &Value::from(key), why);
    }
    for (i, value) in requirement.items_at(&["values"]).iter().enumerate() {
        for why in names::label_value(value.as_str().unwrap_or_default()) {
            errors.invalid(format!("{field}.values[{i}]"), value, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    #[track_caller]
    fn check(resource: &str, review: &Value, expected: &str) {
        let mut errors = ErrorList::new();
        validate(resource, review, &mut errors);
        assert_eq!(errors.summary(), expected);
    }

    #[test]
    fn reviews_ask_one_thing_of_somebody() {
        let one_of = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        check("subjectaccessreviews", &value!({"spec": {"user": "u", "resourceAttributes": {}}}), "");
        check("subjectaccessreviews", &value!({"spec": {"groups": ["g"], "nonResourceAttributes": {}}}), "");
        check(
            "subjectaccessreviews",
            &value!({"spec": {}}),
            &format!("[spec: Invalid value: null: {one_of}, {nobody}]"),
        );
        check(
            "selfsubjectaccessreviews",
            &value!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/a", "verb": "get"}}}),
            &format!("spec: Invalid value: {{\"Path\":\"/a\",\"Verb\":\"get\"}}: {one_of}"),
        );
        check(
            "selfsubjectaccessreviews",
            &value!({"metadata": {"namespace": "n", "name": "x", "managedFields": []}, "spec": {"resourceAttributes": {}}}),
            "metadata: Invalid value: {\"name\":\"x\",\"namespace\":\"n\",\"managedFields\":[]}: must be empty",
        );
    }

    #[test]
    fn local_reviews_stay_in_their_namespace() {
        let review = value!({
            "metadata": {"namespace": "here"},
            "spec": {"user": "u", "resourceAttributes": {"namespace": "there"}},
        });
        check(
            "localsubjectaccessreviews",
            &review,
            "spec.resourceAttributes.namespace: Invalid value: \"there\": must match metadata.namespace",
        );
        check(
            "subjectaccessreviews",
            &value!({"spec": {"user": "u", "resourceAttributes": {"namespace": "x"}}}),
            "",
        );
    }

    #[test]
    fn selectors() {
        let about = value!({
            "fieldSelector": {},
            "labelSelector": {"rawSelector": "a", "requirements": [{"key": "b", "operator": "In"}]},
        });
        check(
            "selfsubjectaccessreviews",
            &value!({"spec": {"resourceAttributes": about}}),
            "[spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required, spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a\": may not specified at the same time as requirements, spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn']",
        );
    }
}
