//! Cluster role bindings.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterrolebindings",
    storage_prefix: "clusterrolebindings",
    name: NameRule::PathSegment,
    create_on_update: true,
    ..Rules::DEFAULT
};
