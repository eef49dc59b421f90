//! CSI drivers. The generation counts changes only: a new driver has none.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csidrivers",
    storage_prefix: "csidrivers",
    generation: Generation { initial: 0, counts: &[&["spec"]] },
    unconditional_update: false,
    delete_returns_object: true,
    ..Rules::DEFAULT
};
