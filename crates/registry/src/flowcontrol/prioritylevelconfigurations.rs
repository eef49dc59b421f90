//! Priority level configurations: how many requests of a level run at once, and how the others wait.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, present, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "prioritylevelconfigurations",
    storage_prefix: "prioritylevelconfigurations",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    columns: &[
        NAME,
        text("Type", "Whether requests at this level are limited."),
        text("NominalConcurrencyShares", "Its share of the requests that run at once."),
        text("Queues", "How many queues there are."),
        text("HandSize", "How many queues a flow may use."),
        text("QueueLengthLimit", "How many requests a queue holds."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    const QUEUING: [&str; 4] = ["spec", "limited", "limitResponse", "queuing"];
    let shares = match present(object, &["spec", "limited"]) {
        true => Value::from(int_at(object, &["spec", "limited", "nominalConcurrencyShares"])),
        false => Value::from(NONE),
    };
    let queuing = |key: &str| match object.at(&QUEUING).filter(|q| !q.is_null()) {
        Some(queuing) => Value::from(int_at(queuing, &[key])),
        None => Value::from(NONE),
    };
    cells![
        name(object),
        str_at(object, &["spec", "type"]),
        shares,
        queuing("queues"),
        queuing("handSize"),
        queuing("queueLengthLimit"),
        age(object, context),
    ]
}
