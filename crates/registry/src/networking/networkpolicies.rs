//! Network policies.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    storage_prefix: "networkpolicies",
    generation: Generation::SPEC,
    ..Rules::DEFAULT
};
