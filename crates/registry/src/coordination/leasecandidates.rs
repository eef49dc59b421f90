//! Lease candidates: who would take a lease.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    storage_version: "v1beta1",
    storage_prefix: "leasecandidates",
    name: NameRule::PathSegment,
    unconditional_update: false,
    create_on_update: true,
    ..Rules::DEFAULT
};
