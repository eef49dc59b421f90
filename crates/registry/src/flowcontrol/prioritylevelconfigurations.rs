//! Priority level configurations: the concurrency and queuing of a level's requests.

mod validate;

use corten_api::Value;

use crate::defaults::{child, fill_absent, fill_zero, made};
use crate::flowcontrol::validate_status;
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, present, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "prioritylevelconfigurations",
    prefix_on_update: true,
    storage_prefix: "prioritylevelconfigurations",
    generation: Generation::SPEC,
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate::validate,
    validate_update: |new, _, errors| validate::validate(new, errors),
    validate_subresource: validate_status,
    columns: &[
        NAME,
        text("Type", "Whether requests at this level are limited.")
            .of("flowcontrol/v1.PriorityLevelConfigurationSpec", "type"),
        text("NominalConcurrencyShares", "Its share of the requests that run at once.")
            .of("flowcontrol/v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        text("Queues", "How many queues there are.").of("flowcontrol/v1.QueuingConfiguration", "queues"),
        text("HandSize", "How many queues a flow may use.")
            .of("flowcontrol/v1.QueuingConfiguration", "handSize"),
        text("QueueLengthLimit", "How many requests a queue holds.")
            .of("flowcontrol/v1.QueuingConfiguration", "queueLengthLimit"),
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

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    if let Some(limited) = child(spec, "limited") {
        fill_absent(limited, "nominalConcurrencyShares", 30);
        fill_absent(limited, "lendablePercent", 0);
        if let Some(queues) = child(limited, "limitResponse").and_then(|response| child(response, "queuing"))
        {
            fill_zero(queues, "handSize", 8);
            fill_zero(queues, "queues", 64);
            fill_zero(queues, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = child(spec, "exempt") {
        fill_absent(exempt, "nominalConcurrencyShares", 0);
        fill_absent(exempt, "lendablePercent", 0);
    }
}
