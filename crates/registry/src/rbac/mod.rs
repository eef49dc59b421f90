//! `rbac.authorization.k8s.io`.

pub(crate) mod clusterrolebindings;
pub(crate) mod clusterroles;
pub(crate) mod rolebindings;
pub(crate) mod roles;
