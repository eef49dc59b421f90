//! `lifecycle.k8s.io`.

pub(crate) mod evictionrequests;
pub(crate) mod evictions;
