//! Runtime classes: which container runtime pods ask for.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    storage_prefix: "runtimeclasses",
    unconditional_update: false,
    create_on_update: true,
    columns: &[NAME, text("Handler", "What the container runtime calls it."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["handler"]), age(object, context)]
}
