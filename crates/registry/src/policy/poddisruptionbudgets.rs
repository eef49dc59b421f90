//! Pod disruption budgets.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "policy",
    resource: "poddisruptionbudgets",
    storage_prefix: "poddisruptionbudgets",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    unconditional_update: false,
    ..Rules::DEFAULT
};
