//! Validating webhook configurations. There is no spec: the webhooks are what the generation counts.

use corten_api::Value;

use super::{defaults, webhooks};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingwebhookconfigurations",
    storage_prefix: "validatingwebhookconfigurations",
    generation: Generation { initial: 1, counts: &[&["webhooks"]] },
    default,
    validate_create: webhooks::create,
    validate_update: webhooks::update,
    warnings: webhooks::warnings,
    unconditional_update: false,
    columns: &[NAME, integer("Webhooks", "How many webhooks it registers."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["webhooks"]), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    defaults::webhooks(object);
}
