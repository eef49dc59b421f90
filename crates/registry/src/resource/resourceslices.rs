//! Resource slices.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceslices",
    storage_prefix: "resourceslices",
    generation: Generation::SPEC,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
