//! The types of the pod API as upstream shows them in messages.
//!
//! Fields are in upstream's order: texts that differ are shown line by line.

pub(crate) mod container;
pub(crate) mod spec;
pub(crate) mod volume;
