//! `batch`: work that ends.

pub(crate) mod cronjobs;
pub(crate) mod jobs;
