//! `scheduling.k8s.io`.

pub(crate) mod compositepodgroups;
pub(crate) mod podgroups;
pub(crate) mod priorityclasses;
pub(crate) mod workloads;
