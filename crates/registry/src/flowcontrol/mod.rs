//! `flowcontrol.apiserver.k8s.io`.

pub(crate) mod flowschemas;
pub(crate) mod prioritylevelconfigurations;
