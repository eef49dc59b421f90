//! Flow schemas: the priority levels of requests. They are listed in matching order.

mod validate;

use std::cmp::Ordering;

use corten_api::Value;

use crate::defaults::{fill_zero, made};
use crate::flowcontrol::validate_status;
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, Listing, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, condition, field, int_at, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "flowschemas",
    prefix_on_update: true,
    storage_prefix: "flowschemas",
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
        text("PriorityLevel", "The priority level its requests run at.")
            .of("flowcontrol/v1.PriorityLevelConfigurationReference", "name"),
        text("MatchingPrecedence", "Schemas are tried from the lowest up.")
            .of("flowcontrol/v1.FlowSchemaSpec", "matchingPrecedence"),
        text("DistinguisherMethod", "What tells one flow from another.")
            .of("flowcontrol/v1.FlowSchemaSpec", "distinguisherMethod"),
        AGE,
        text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
    ],
    row,
    listing: Listing::Sorted(by_precedence),
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let method = object.at(&["spec", "distinguisherMethod"]).filter(|m| !m.is_null());
    cells![
        name(object),
        str_at(object, &["spec", "priorityLevelConfiguration", "name"]),
        precedence(object),
        method.map_or(NONE, |m| str_at(m, &["type"])),
        age(object, context),
        condition(object, "Dangling").map_or("?", |c| str_at(c, &["status"])),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_zero(made(object, "spec"), "matchingPrecedence", 1000);
}

fn precedence(object: &Value) -> i64 {
    int_at(object, &["spec", "matchingPrecedence"])
}

/// The order in which schemas are matched.
fn by_precedence(a: &Value, b: &Value) -> Ordering {
    let rank = |object: &Value| (precedence(object), field(object, &["metadata", "name"]));
    rank(a).cmp(&rank(b))
}
