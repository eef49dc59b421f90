//! `authentication.k8s.io`.

pub(crate) mod selfsubjectreviews;
pub(crate) mod tokenrequests;
pub(crate) mod tokenreviews;
