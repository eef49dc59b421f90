//! Storage versions: what each API server encodes a resource as.

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    storage_version: "v1alpha1",
    storage_prefix: "storageversions",
    name: NameRule::PathSegment,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    ..Rules::DEFAULT
};
