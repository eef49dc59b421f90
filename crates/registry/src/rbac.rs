//! `rbac.authorization.k8s.io`.

pub(crate) mod clusterrolebindings;
pub(crate) mod clusterroles;
pub(crate) mod rolebindings;
pub(crate) mod roles;
mod validate;

/// The group of roles, and of the users and groups they are granted to.
const GROUP: &str = "rbac.authorization.k8s.io";
