//! `policy`.

pub(crate) mod poddisruptionbudgets;
