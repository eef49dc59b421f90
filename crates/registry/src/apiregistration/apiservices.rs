//! API services: who serves a group version. One without a service is served here.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    storage_prefix: "apiregistration.k8s.io/apiservices",
    name: NameRule::PathSegment,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    ..Rules::DEFAULT
};
