//! Limit ranges.

use corten_api::Value;

use crate::rules::{Request, Rules};
use crate::table::str_at;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "limitranges",
    storage_prefix: "limitranges",
    prepare_create: prepare_create,
    create_on_update: true,
    ..Rules::DEFAULT
};

/// A limit range need not be named.
fn prepare_create(object: &mut Value, _: &Request<'_>) {
    if str_at(object, &["metadata", "name"]).is_empty() {
        if let Some(uid) = object.at(&["metadata", "uid"]).cloned() {
            object.set(&["metadata", "name"], uid);
        }
    }
}
