//! Role bindings: roles granted in a namespace. Names may be anything that fits into a path.

use corten_api::Value;

use crate::defaults::{fill_zero, items, made, text_of};
use crate::rbac::GROUP;
use crate::rbac::validate::{Scope, validate_binding, validate_binding_update};
use crate::rules::{Column, NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "rolebindings",
    storage_prefix: "rolebindings",
    name: NameRule::PathSegment,
    default,
    validate_create: |binding, errors| validate_binding(binding, Scope::Namespace, errors),
    validate_update: |new, old, errors| validate_binding_update(new, old, Scope::Namespace, errors),
    create_on_update: true,
    columns: COLUMNS,
    row,
    ..Rules::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text(
        "Role",
        "roleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    text("Users", "Users in the roleBinding").wide(),
    text("Groups", "Groups in the roleBinding").wide(),
    text("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
];

/// The row of bindings in a namespace and in the cluster.
pub(crate) fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let role = |key: &str| str_at(object, &["roleRef", key]);
    let subjects = |kind: &str, shown: fn(&Value) -> String| {
        let subjects = object.items_at(&["subjects"]).iter();
        let shown = subjects.filter(|s| s.str_at(&["kind"]) == Some(kind)).map(shown);
        shown.collect::<Vec<_>>().join(", ")
    };
    let bare = |subject: &Value| str_at(subject, &["name"]).to_owned();
    let account =
        |subject: &Value| format!("{}/{}", str_at(subject, &["namespace"]), str_at(subject, &["name"]));
    cells![
        name(object),
        format!("{}/{}", role("kind"), role("name")),
        age(object, context),
        subjects("User", bare),
        subjects("Group", bare),
        subjects("ServiceAccount", account),
    ]
}

/// Users and groups are in the RBAC group; so are roles.
pub(crate) fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_zero(made(object, "roleRef"), "apiGroup", GROUP);
    for subject in items(object, "subjects") {
        if matches!(text_of(subject, "kind"), "User" | "Group") {
            fill_zero(subject, "apiGroup", GROUP);
        }
    }
}
