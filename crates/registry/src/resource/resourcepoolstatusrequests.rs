//! Resource pool status requests: processed once, with the result in their status.

mod validate;

use corten_api::Value;

use crate::prepare::{
    keep_status, remove_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{NAME, NONE, cells, count, int_at, integer, name, present, since, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourcepoolstatusrequests",
    storage_version: "v1alpha3",
    storage_prefix: "resourcepoolstatusrequests",
    prepare_create: remove_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: validate::subresource,
    unconditional_update: false,
    status_table: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Driver", "The driver to query pools for."),
        text("Total", "Total number of devices across all pools."),
        text("Available", "Number of available devices across all pools."),
        text("Allocated", "Number of allocated devices across all pools."),
        text("Unavailable", "Number of unavailable devices across all pools."),
        text("Errors", "Number of pools with validation errors."),
        integer("Pools", "Total number of matching pools."),
        text("Status", "Processing status."),
        text("Completed", "Time since the observation completed."),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let verdict = object.items_at(&["status", "conditions"]).iter().find(|c| {
        c.str_at(&["status"]) == Some("True") && matches!(c.str_at(&["type"]), Some("Complete" | "Failed"))
    });
    let verdict = verdict.map_or(("Pending", &Value::Null), |c| (str_at(c, &["type"]), c));
    let pools = object.items_at(&["status", "pools"]);
    let pool_count = int_at(object, &["status", "poolCount"]);
    let status = match verdict.0 {
        "Complete" if pool_count > count(object, &["status", "pools"]) => {
            format!("Complete ({}/{pool_count} pools)", pools.len())
        }
        status => status.to_owned(),
    };
    let counted = present(object, &["status"]) && verdict.0 != "Failed";
    let total = |key: &str| match counted {
        true => pools.iter().map(|pool| int_at(pool, &[key])).sum::<i64>().to_string(),
        false => "-".to_owned(),
    };
    let errors = match counted {
        true => pools.iter().filter(|pool| present(pool, &["validationError"])).count().to_string(),
        false => "-".to_owned(),
    };
    let completed = match verdict {
        ("Complete", condition) => since(condition, &["lastTransitionTime"], context),
        _ => NONE.to_owned(),
    };
    cells![
        name(object),
        str_at(object, &["spec", "driver"]),
        total("totalDevices"),
        total("availableDevices"),
        total("allocatedDevices"),
        total("unavailableDevices"),
        errors,
        pool_count,
        status,
        completed,
    ]
}
