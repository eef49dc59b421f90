//! Service CIDRs: ranges that cluster IPs come from.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    storage_prefix: "servicecidrs",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    ..Rules::DEFAULT
};
