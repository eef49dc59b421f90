//! Storage version migrations: rewriting what is stored in an older version.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Column, RowContext, Rules};
use crate::table::{NAME, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "storagemigration.k8s.io",
    resource: "storageversionmigrations",
    storage_version: "v1beta1",
    storage_prefix: "storageversionmigrations",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        Column { format: "", ..NAME },
        text("Resource", "What is migrated."),
        text("Status", "How it is going."),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let resource = |key: &str| str_at(object, &["spec", "resource", key]);
    let migrated = match resource("group") {
        "" => resource("resource").to_owned(),
        group => format!("{}.{group}", resource("resource")),
    };
    let kinds = ["Running", "Failed", "Succeeded"];
    let holding =
        object.items_at(&["status", "conditions"]).iter().filter(|c| c.str_at(&["status"]) == Some("True"));
    let status = holding.map(|c| str_at(c, &["type"])).rfind(|kind| kinds.contains(kind));
    cells![name(object), migrated, status.unwrap_or("Unknown")]
}
