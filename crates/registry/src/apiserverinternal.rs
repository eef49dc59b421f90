//! `internal.apiserver.k8s.io`.

pub(crate) mod storageversions;
