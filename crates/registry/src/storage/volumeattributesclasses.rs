//! Volume attributes classes: how a driver should provide volumes.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    storage_prefix: "volumeattributesclasses",
    delete_returns_object: true,
    columns: &[NAME, text("DriverName", "The driver it is for."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["driverName"]), age(object, context)]
}
