//! Limit ranges: bounds and defaults for what containers of a namespace may use.

use corten_api::Value;

use crate::rules::{Request, Rules};
use crate::table::str_at;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "limitranges",
    storage_prefix: "limitranges",
    prepare_create,
    create_on_update: true,
    ..Rules::DEFAULT
};

/// A limit range need not be named: its uid will do.
fn prepare_create(object: &mut Value, _: &Request<'_>) {
    let uid = object.at(&["metadata", "uid"]).cloned();
    if let Some(uid) = uid.filter(|_| str_at(object, &["metadata", "name"]).is_empty()) {
        object.set(&["metadata", "name"], uid);
    }
}
