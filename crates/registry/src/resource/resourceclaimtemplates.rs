//! Resource claim templates: claims made anew for each pod.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    storage_prefix: "resourceclaimtemplates",
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}
