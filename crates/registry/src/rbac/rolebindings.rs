//! Role bindings.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "rolebindings",
    storage_prefix: "rolebindings",
    name: NameRule::PathSegment,
    create_on_update: true,
    ..Rules::DEFAULT
};
