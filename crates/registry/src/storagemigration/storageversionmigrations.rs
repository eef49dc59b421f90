//! Storage version migrations.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::Rules;

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
    ..Rules::DEFAULT
};
