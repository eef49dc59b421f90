//! Lease candidates: who would take a lease.

use corten_api::Value;

use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    storage_version: "v1beta1",
    storage_prefix: "leasecandidates",
    name: NameRule::PathSegment,
    unconditional_update: false,
    create_on_update: true,
    columns: &[
        NAME,
        text("LeaseName", "The lease it would take."),
        text("BinaryVersion", "Version of its program."),
        text("EmulationVersion", "Version its program behaves as."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let spec = |key: &str| str_at(object, &["spec", key]);
    cells![
        name(object),
        spec("leaseName"),
        spec("binaryVersion"),
        spec("emulationVersion"),
        age(object, context)
    ]
}
