//! Runtime classes.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    storage_prefix: "runtimeclasses",
    unconditional_update: false,
    create_on_update: true,
    ..Rules::DEFAULT
};
