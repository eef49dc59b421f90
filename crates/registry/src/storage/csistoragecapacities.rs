//! CSI storage capacities: how much a class could still provide in a part of the cluster.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csistoragecapacities",
    storage_prefix: "csistoragecapacities",
    unconditional_update: false,
    ..Rules::DEFAULT
};
