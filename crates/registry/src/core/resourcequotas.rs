//! Resource quotas.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "resourcequotas",
    storage_prefix: "resourcequotas",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
