//! Bindings: a request to bind a pod to a node, never stored.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules { group: "", resource: "bindings", stored: false, ..Rules::DEFAULT };
