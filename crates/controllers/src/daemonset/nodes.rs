//! The nodes on which the pods of a daemon set run.

use std::collections::BTreeMap;
use std::sync::Arc;

use corten_api::placement::{self, Place};
use corten_api::{Str, Value};
use corten_client::Object;

use super::template;
use crate::nodes::NodeView;

/// The decision about one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Node {
    /// A pod should run there.
    pub(super) should_run: bool,
    /// A pod that runs there may continue.
    pub(super) may_stay: bool,
}

/// The decisions about all nodes.
pub(super) fn all(nodes: &[Arc<Object>], set: &Value) -> BTreeMap<Str, Node> {
    let mut spec = set.at(&["spec", "template", "spec"]).cloned().unwrap_or_else(Value::object);
    template::add_tolerations(&mut spec);
    nodes.iter().map(|node| (node.key.name.clone(), judge(&spec, node))).collect()
}

fn judge(spec: &Value, node: &Object) -> Node {
    let named = spec.str_at(&["nodeName"]).unwrap_or_default();
    let place = Place { name: &node.key.name, labels: &node.labels };
    if !(named.is_empty() || named == node.key.name) || !placement::is_required(spec, place) {
        return Node::default();
    }
    let view = node.view::<NodeView>();
    let tolerates =
        |effects: &[&str]| placement::tolerates(spec.items_at(&["tolerations"]), &view.taints, effects);
    Node { should_run: tolerates(&["NoSchedule", "NoExecute"]), may_stay: tolerates(&["NoExecute"]) }
}
