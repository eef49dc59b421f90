//! Mutating webhook configurations. There is no spec: the webhooks are what the generation counts.

use corten_api::Value;

use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    storage_prefix: "mutatingwebhookconfigurations",
    generation: Generation { initial: 1, counts: &[&["webhooks"]] },
    unconditional_update: false,
    columns: &[NAME, integer("Webhooks", "How many webhooks it registers."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["webhooks"]), age(object, context)]
}
