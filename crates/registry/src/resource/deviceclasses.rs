//! Device classes.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    storage_prefix: "deviceclasses",
    generation: Generation::SPEC,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
