//! Custom resource definitions. `status.storedVersions` remembers every version objects were ever stored in.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    storage_prefix: "apiextensions.k8s.io/customresourcedefinitions",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    unconditional_update: false,
    ..Rules::DEFAULT
};
