//! Device classes: kinds of devices to ask for.

use corten_api::Value;

use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    storage_prefix: "deviceclasses",
    generation: Generation::SPEC,
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}
