//! Cluster role bindings: roles granted everywhere. Names may be anything that fits into a path.

use crate::rbac::rolebindings;
use crate::rbac::validate::{Scope, validate_binding, validate_binding_update};
use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterrolebindings",
    storage_prefix: "clusterrolebindings",
    name: NameRule::PathSegment,
    default: rolebindings::default,
    validate_create: |binding, errors| validate_binding(binding, Scope::Cluster, errors),
    validate_update: |new, old, errors| validate_binding_update(new, old, Scope::Cluster, errors),
    create_on_update: true,
    columns: rolebindings::COLUMNS,
    row: rolebindings::row,
    ..Rules::DEFAULT
};
