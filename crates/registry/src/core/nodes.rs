//! Nodes. A new one may bring its status along: kubelets register that way.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "nodes",
    storage_prefix: "minions",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    ..Rules::DEFAULT
};
