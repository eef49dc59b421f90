//! `apiextensions.k8s.io`.

pub(crate) mod customresourcedefinitions;
