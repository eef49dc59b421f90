//! Storage versions: what each API server encodes a resource as.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, UNSET, age, cells, first_few, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    storage_version: "v1alpha1",
    storage_prefix: "storageversions",
    name: NameRule::PathSegment,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("CommonEncodingVersion", "What all servers encode as, if they agree."),
        text("StorageVersions", "What each server encodes as."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let server = |v: &Value| format!("{}={}", str_at(v, &["apiServerID"]), str_at(v, &["encodingVersion"]));
    let servers: Vec<String> = object.items_at(&["status", "storageVersions"]).iter().map(server).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    cells![
        name(object),
        object.str_at(&["status", "commonEncodingVersion"]).unwrap_or(UNSET),
        first_few(&servers, 3),
        age(object, context),
    ]
}
