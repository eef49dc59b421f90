//! Mutating admission policies.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    storage_prefix: "mutatingadmissionpolicies",
    generation: Generation::SPEC,
    unconditional_update: false,
    ..Rules::DEFAULT
};
