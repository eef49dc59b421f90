//! `batch`: workloads that complete.

pub(crate) mod cronjobs;
pub(crate) mod jobs;
