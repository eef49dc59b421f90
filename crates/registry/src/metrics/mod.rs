//! `metrics.k8s.io`: what nodes and pods use, made up from what kubelets tell.

pub(crate) mod nodes;
pub(crate) mod pods;

use crate::rules::Column;
use crate::table::{NAME, text};

/// Named after the resources, as they are.
const COLUMNS: &[Column] = &[
    NAME,
    Column { format: "quantity", ..text("cpu", "") },
    Column { format: "quantity", ..text("memory", "") },
    Column { format: "duration", ..text("Window", "") },
];
