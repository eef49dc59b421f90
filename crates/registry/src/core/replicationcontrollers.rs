//! Replication controllers.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{GarbageCollection, Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "replicationcontrollers",
    storage_prefix: "controllers",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    garbage_collection: GarbageCollection::Orphan,
    ..Rules::DEFAULT
};
