//! Validating admission policy bindings.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    storage_prefix: "validatingadmissionpolicybindings",
    generation: Generation::SPEC,
    unconditional_update: false,
    ..Rules::DEFAULT
};
