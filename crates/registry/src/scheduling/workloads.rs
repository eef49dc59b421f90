//! Workloads: templates of pod groups.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "workloads",
    storage_version: "v1beta1",
    storage_prefix: "workloads",
    unconditional_update: false,
    ..Rules::DEFAULT
};
