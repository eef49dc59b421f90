//! Cluster role bindings: roles granted everywhere. Names may be anything that fits into a path.

use crate::rbac::rolebindings;
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterrolebindings",
    storage_prefix: "clusterrolebindings",
    name: NameRule::PathSegment,
    default: rolebindings::default,
    create_on_update: true,
    columns: rolebindings::COLUMNS,
    row: rolebindings::row,
    ..Rules::DEFAULT
};
