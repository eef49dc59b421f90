//! Checks that several resources share, one file per topic.
//!
//! Everything in here only looks, is total (what is missing or of a wrong type is empty), and allocates
//! nothing for what is valid.

pub(crate) mod conditions;
pub(crate) mod csi;
pub(crate) mod expression;
pub(crate) mod ip;
pub(crate) mod label_selector;
pub(crate) mod node_selector;
pub(crate) mod text;
pub(crate) mod url;
pub(crate) mod webhook;
