//! Device taint rules.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    storage_version: "v1beta2",
    storage_prefix: "devicetaintrules",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    ..Rules::DEFAULT
};
