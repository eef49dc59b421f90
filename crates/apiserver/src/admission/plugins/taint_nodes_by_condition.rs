//! TaintNodesByCondition: a new node is tainted until it reports that it is ready.

use corten_api::{Status, Value, value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::Attributes;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "TaintNodesByCondition",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.is_object("", "nodes") && attributes.creates() {
        taint(object);
    }
    Ok(())
}

pub(super) fn taint(node: &mut Value) {
    let is_not_ready = |taint: &Value| {
        taint.str_at(&["key"]) == Some(NOT_READY) && taint.str_at(&["effect"]) == Some("NoSchedule")
    };
    let taints = node.make_object().entry("spec").make_object().entry("taints").make_array();
    if !taints.iter().any(is_not_ready) {
        taints.push(value!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_tainted_once() {
        let mut node = value!({});
        taint(&mut node);
        taint(&mut node);
        assert_eq!(node, value!({"spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}}));
        let mut other = value!({"spec": {"taints": [{"key": NOT_READY, "effect": "NoExecute"}]}});
        taint(&mut other);
        assert_eq!(other.items_at(&["spec", "taints"]).len(), 2);
    }
}
