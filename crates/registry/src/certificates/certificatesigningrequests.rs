//! Certificate signing requests. Who asked is written down by the server; the spec never changes.

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "certificatesigningrequests",
    storage_prefix: "certificatesigningrequests",
    name: NameRule::PathSegment,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    ..Rules::DEFAULT
};
