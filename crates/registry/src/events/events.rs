//! Events as `events.k8s.io` shows them: another view of the core ones.

use std::time::Duration;

use crate::rules::{GarbageCollection, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "events.k8s.io",
    resource: "events",
    stored_as: Some(("", "events")),
    storage_prefix: "events",
    create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    ttl: Some(Duration::from_secs(60 * 60)),
    ..Rules::DEFAULT
};
