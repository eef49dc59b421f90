//! Roles: permissions in a namespace. Names may be anything that fits into a path.

use crate::rbac::validate::{Scope, validate_rules};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "roles",
    storage_prefix: "roles",
    name: NameRule::PathSegment,
    validate_create: |role, errors| validate_rules(role, Scope::Namespace, errors),
    validate_update: |role, _, errors| validate_rules(role, Scope::Namespace, errors),
    create_on_update: true,
    ..Rules::DEFAULT
};
