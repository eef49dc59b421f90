//! `coordination.k8s.io`.

pub(crate) mod leasecandidates;
pub(crate) mod leases;
mod strategy;
