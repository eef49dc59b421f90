//! Cluster roles: what may be done, anywhere. Names may be anything that fits into a path.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    storage_prefix: "clusterroles",
    name: NameRule::PathSegment,
    create_on_update: true,
    ..Rules::DEFAULT
};
