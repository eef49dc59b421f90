//! Limit ranges: bounds and defaults for what containers of a namespace may use.

use corten_api::Value;

use crate::defaults::{copy_missing, items, made, resource_list, text_of};
use crate::rules::{Request, Rules};
use crate::table::str_at;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "limitranges",
    storage_prefix: "limitranges",
    default,
    prepare_create,
    create_on_update: true,
    ..Rules::DEFAULT
};

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for item in items(made(object, "spec"), "limits") {
        if text_of(item, "type") == "Container" {
            copy_missing(item, "max", "default");
            copy_missing(item, "default", "defaultRequest");
            copy_missing(item, "min", "defaultRequest");
        }
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            resource_list(item, list);
        }
    }
}

/// A limit range need not be named: its uid will do.
fn prepare_create(object: &mut Value, _: &Request<'_>) {
    let uid = object.at(&["metadata", "uid"]).cloned();
    if let Some(uid) = uid.filter(|_| str_at(object, &["metadata", "name"]).is_empty()) {
        object.set(&["metadata", "name"], uid);
    }
}
