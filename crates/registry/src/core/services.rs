//! Services.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "services",
    storage_prefix: "services/specs",
    name: NameRule::DnsLabel,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    create_on_update: true,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
