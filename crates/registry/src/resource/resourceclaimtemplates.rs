//! Resource claim templates: claims made anew for each pod.

use corten_api::Value;

use super::resourceclaims::default_spec;
use crate::defaults::made;
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    storage_prefix: "resourceclaimtemplates",
    default,
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    default_spec(made(made(object, "spec"), "spec"));
}
