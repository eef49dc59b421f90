//! Storage version migrations: rewriting objects that are stored in an older version.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json, names};

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, same, status_keeps_spec_and_metadata,
};
use crate::rules::{Column, RowContext, Rules};
use crate::table::{NAME, cells, condition_true, name, str_at, text};
use crate::validation::conditions::validate_conditions;

pub(crate) const RULES: Rules = Rules {
    group: "storagemigration.k8s.io",
    resource: "storageversionmigrations",
    prefix_on_update: true,
    storage_version: "v1beta1",
    storage_prefix: "storageversionmigrations",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create,
    validate_update,
    validate_subresource,
    unconditional_update: false,
    columns: &[
        Column { format: "", ..NAME },
        text("Resource", "GroupResource to migrate"),
        text("Status", "Status of the migration"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let resource = |key: &str| str_at(object, &["spec", "resource", key]);
    let migrated = match resource("group") {
        "" => resource("resource").to_owned(),
        group => format!("{}.{group}", resource("resource")),
    };
    let kinds = ["Running", "Failed", "Succeeded"];
    let holding =
        object.items_at(&["status", "conditions"]).iter().filter(|c| c.str_at(&["status"]) == Some("True"));
    let status = holding.map(|c| str_at(c, &["type"])).rfind(|kind| kinds.contains(kind));
    cells![name(object), migrated, status.unwrap_or("Unknown")]
}

fn validate_create(object: &Value, errors: &mut ErrorList) {
    const RESOURCE: Field<'static> = Field::new("spec").child("resource");
    let part = |key: &str| str_at(object, &["spec", "resource", key]);
    if part("resource").is_empty() {
        errors.required(RESOURCE.child("resource"), "resource is required to be set");
    }
    let complaints = [
        ("resource", names::dns1035_label(part("resource"))),
        ("group", names::dns1123_subdomain(part("group"))),
    ];
    for (key, complaints) in complaints {
        if !part(key).is_empty() && !complaints.is_empty() {
            errors.invalid(RESOURCE.child(key), &Value::from(part(key)), complaints.join(","));
        }
    }
}

/// The resource is immutable.
fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_create(object, errors);
    if !same(object, old, &["spec"]) {
        let part =
            |key: &str| json::write_to_string(&Value::from(str_at(object, &["spec", "resource", key])));
        let shown =
            format!("{{\"Resource\":{{\"group\":{},\"resource\":{}}}}}", part("group"), part("resource"));
        errors.invalid_shown("spec", shown, "field is immutable");
    }
}

/// A migration finishes once, and in one way.
fn validate_subresource(sub: &str, object: &Value, old: &Value, errors: &mut ErrorList) {
    const STATUS: Field<'static> = Field::new("status");
    const VERSION: &[&str] = &["status", "resourceVersion"];
    if sub != "status" {
        return;
    }
    let version = str_at(object, VERSION);
    if let Some(why) = version_complaint(version) {
        errors.invalid(STATUS.child("resourceVersion"), &Value::from(version), why);
    }
    let conditions = object.items_at(&["status", "conditions"]);
    validate_conditions(conditions, &STATUS.child("conditions"), errors);
    if !str_at(old, VERSION).is_empty() && str_at(old, VERSION) != version {
        errors.invalid(STATUS.child("resourceVersion"), &Value::from(version), "field is immutable");
    }
    let mut refuse = |why: &str| {
        errors.invalid(STATUS.child("conditions"), &Value::from(conditions.to_vec()), why);
    };
    if condition_true(object, "Succeeded") && condition_true(object, "Failed") {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    for (kind, word) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if condition_true(old, kind) && !condition_true(object, kind) {
            refuse(&format!("{word} condition cannot be set to false once it is true"));
        }
    }
}

/// Versions of storage are numbers.
fn version_complaint(version: &str) -> Option<String> {
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
    (!version.is_empty() && !is_number).then(|| format!("resource version is not well formed: {version}"))
}
