//! Validating webhook configurations. There is no spec: the generation counts changes of the webhooks.

use corten_api::Value;

use super::{defaults, webhooks};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingwebhookconfigurations",
    prefix_on_update: true,
    storage_prefix: "validatingwebhookconfigurations",
    qualified_finalizers: false,
    generation: Generation { initial: 1, counts: &[&["webhooks"]] },
    default,
    validate_create: webhooks::create,
    validate_update: webhooks::update,
    warnings: webhooks::warnings,
    unconditional_update: false,
    columns: &[
        NAME,
        integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
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
