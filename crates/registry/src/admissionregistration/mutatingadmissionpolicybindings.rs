//! Mutating admission policy bindings.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicybindings",
    storage_prefix: "mutatingadmissionpolicybindings",
    generation: Generation::SPEC,
    unconditional_update: false,
    ..Rules::DEFAULT
};
