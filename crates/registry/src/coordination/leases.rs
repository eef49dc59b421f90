//! Leases.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leases",
    storage_prefix: "leases",
    unconditional_update: false,
    create_on_update: true,
    ..Rules::DEFAULT
};
