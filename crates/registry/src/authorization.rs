//! `authorization.k8s.io`.

pub(crate) mod localsubjectaccessreviews;
pub(crate) mod selfsubjectaccessreviews;
pub(crate) mod selfsubjectrulesreviews;
pub(crate) mod subjectaccessreviews;
mod validate;
