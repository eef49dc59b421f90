//! Endpoint slices.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    storage_prefix: "endpointslices",
    generation: Generation {
        initial: 1,
        counts: &[&["addressType"], &["endpoints"], &["ports"], &["metadata", "labels"]],
    },
    ..Rules::DEFAULT
};
