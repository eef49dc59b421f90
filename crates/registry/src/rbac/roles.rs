//! Roles: what may be done in a namespace. Names may be anything that fits into a path.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "roles",
    storage_prefix: "roles",
    name: NameRule::PathSegment,
    create_on_update: true,
    ..Rules::DEFAULT
};
