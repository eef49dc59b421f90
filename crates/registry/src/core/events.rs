//! Events: what happened to an object, kept for an hour.

use std::time::Duration;

use crate::rules::{GarbageCollection, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "events",
    storage_prefix: "events",
    create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    ttl: Some(Duration::from_secs(60 * 60)),
    ..Rules::DEFAULT
};
