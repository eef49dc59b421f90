//! Cluster role bindings: roles granted everywhere. Names may be anything that fits into a path.

use crate::rbac::rolebindings;
use crate::rbac::validate::{Scope, validate_binding, validate_binding_update};
use crate::rules::{NameRule, Rules};
use crate::table::{AGE, NAME, text};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterrolebindings",
    storage_prefix: "clusterrolebindings",
    name: NameRule::PathSegment,
    default: rolebindings::default,
    validate_create: |binding, errors| validate_binding(binding, Scope::Cluster, errors),
    validate_update: |new, old, errors| validate_binding_update(new, old, Scope::Cluster, errors),
    create_on_update: true,
    columns: &[
        NAME,
        text(
            "Role",
            "roleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
        ),
        AGE,
        text("Users", "Users in the clusterRoleBinding").wide(),
        text("Groups", "Groups in the clusterRoleBinding").wide(),
        text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding").wide(),
    ],
    row: rolebindings::row,
    ..Rules::DEFAULT
};
