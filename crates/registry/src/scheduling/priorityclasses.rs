//! Priority classes. The generation is one for good.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    storage_prefix: "priorityclasses",
    generation: Generation { initial: 1, counts: &[] },
    ..Rules::DEFAULT
};
