//! Priority level configurations.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "prioritylevelconfigurations",
    storage_prefix: "prioritylevelconfigurations",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    ..Rules::DEFAULT
};
