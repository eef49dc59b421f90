//! Mutating webhook configurations.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    storage_prefix: "mutatingwebhookconfigurations",
    generation: Generation { initial: 1, counts: &[&["webhooks"]] },
    unconditional_update: false,
    ..Rules::DEFAULT
};
