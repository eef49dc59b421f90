//! Ingress classes.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    storage_prefix: "ingressclasses",
    generation: Generation::SPEC,
    ..Rules::DEFAULT
};
