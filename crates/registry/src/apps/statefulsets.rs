//! Stateful sets.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "statefulsets",
    storage_prefix: "statefulsets",
    name: NameRule::DnsLabel,
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    ..Rules::DEFAULT
};
