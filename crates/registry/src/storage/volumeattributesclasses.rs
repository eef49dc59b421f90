//! Volume attributes classes: mutable parameters of volumes.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::prepare::same;
use crate::rules::{RowContext, Rules};
use crate::storage::parameters::{validate_parameters, validate_provisioner};
use crate::table::{AGE, NAME, age, cells, count, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    prefix_on_update: true,
    storage_prefix: "volumeattributesclasses",
    validate_create: validate,
    validate_update,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("DriverName", "The driver it is for.").of("storage/v1.VolumeAttributesClass", "driverName"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["driverName"]), age(object, context)]
}

fn validate(class: &Value, errors: &mut ErrorList) {
    let at = Field::new("parameters");
    validate_provisioner(str_at(class, &["driverName"]), &Field::new("driverName"), errors);
    validate_parameters(class, &at, errors);
    if count(class, &["parameters"]) == 0 {
        errors.required(at, "must contain at least one key/value pair");
    }
}

fn validate_update(class: &Value, old: &Value, errors: &mut ErrorList) {
    for key in ["driverName", "parameters"].into_iter().filter(|key| !same(class, old, &[key])) {
        errors.forbidden(key, format!("updates to {key} are forbidden."));
    }
    validate(class, errors);
}
