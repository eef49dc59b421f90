//! `apps`: workloads that keep pods running.

pub(crate) mod controllerrevisions;
pub(crate) mod daemonsets;
pub(crate) mod deployments;
pub(crate) mod replicasets;
pub(crate) mod statefulsets;
