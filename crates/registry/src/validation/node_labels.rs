//! Deprecated labels of nodes.

use corten_api::{Field, Value};

use crate::validation::fields::entries;
use crate::validation::text::{list, text};

/// The deprecation of a label, if it is deprecated.
pub(crate) fn deprecation(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warnings about the expressions of a selector or of a term of one.
pub(crate) fn expression_warnings(selector: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    let at = at.child("matchExpressions");
    for (i, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let key = text(expression, "key");
        if let Some(message) = deprecation(key) {
            warnings.push(format!("{}: {key} is {message}", at.index(i).child("key")));
        }
    }
}

/// Warnings about a label selector that selects nodes.
pub(crate) fn selector_warnings(selector: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    expression_warnings(selector, at, warnings);
    let at = at.child("matchLabels");
    for (label, _) in entries(selector, "matchLabels") {
        if let Some(message) = deprecation(label) {
            warnings.push(format!("{}: {message}", at.child(label)));
        }
    }
}
