//! `metrics.k8s.io`: the usage of nodes and pods, computed from the kubelets' statistics.

pub(crate) mod nodes;
pub(crate) mod pods;

use crate::rules::Column;
use crate::table::{NAME, text};

/// Named after the resources.
const COLUMNS: &[Column] = &[
    NAME,
    Column { format: "quantity", ..text("cpu", "") },
    Column { format: "quantity", ..text("memory", "") },
    Column { format: "duration", ..text("Window", "") },
];
