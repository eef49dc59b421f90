//! Resource pool status requests: answered once, in their status.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourcepoolstatusrequests",
    storage_version: "v1alpha3",
    storage_prefix: "resourcepoolstatusrequests",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
