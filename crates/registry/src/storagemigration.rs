//! `storagemigration.k8s.io`.

pub(crate) mod storageversionmigrations;
