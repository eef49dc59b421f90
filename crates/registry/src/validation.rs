//! Checks that several resources share, one file per topic.
//!
//! Everything in here only looks, is total (what is missing or of a wrong type is empty), and allocates
//! nothing for what is valid.

pub(crate) mod conditions;
pub(crate) mod csi;
pub(crate) mod diff;
pub(crate) mod endpoint;
pub(crate) mod expression;
pub(crate) mod fields;
pub(crate) mod go_shape;
pub(crate) mod int_or_percent;
pub(crate) mod ip;
pub(crate) mod label_selector;
pub(crate) mod node_labels;
pub(crate) mod node_selector;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod pod_template;
pub(crate) mod quantities;
pub(crate) mod resources;
pub(crate) mod shown;
pub(crate) mod text;
pub(crate) mod url;
pub(crate) mod volume_claim;
pub(crate) mod webhook;
pub(crate) mod workload;
