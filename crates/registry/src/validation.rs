//! Checks that several resources share, one file per topic.
//!
//! Everything in here only looks, is total (what is missing or of a wrong type is empty), and allocates
//! nothing for what is valid.

pub(crate) mod conditions;
pub(crate) mod expression;
pub(crate) mod fields;
pub(crate) mod int_or_percent;
pub(crate) mod ip;
pub(crate) mod label_selector;
pub(crate) mod pod_template;
pub(crate) mod quantities;
pub(crate) mod shown;
pub(crate) mod text;
pub(crate) mod url;
pub(crate) mod webhook;
pub(crate) mod workload;
