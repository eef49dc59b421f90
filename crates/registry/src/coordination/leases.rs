//! Leases: who holds something, and for how long.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leases",
    storage_prefix: "leases",
    unconditional_update: false,
    create_on_update: true,
    columns: &[NAME, text("Holder", "Who holds it."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["spec", "holderIdentity"]), age(object, context)]
}
