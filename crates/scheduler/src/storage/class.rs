//! A StorageClass.

use corten_api::{Str, Value};

use crate::node::Node;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Class {
    /// Its provisioner; empty for none.
    pub(crate) provisioner: Str,
    /// True for WaitForFirstConsumer.
    pub(crate) waits: bool,
    /// The allowed topologies: one of the terms, each with all of its keys.
    topologies: Vec<Vec<(Str, Vec<Str>)>>,
}

impl Class {
    pub(super) fn of(class: &Value) -> Class {
        let text = |item: &Value, key: &str| Str::new(item.str_at(&[key]).unwrap_or_default());
        let values = |item: &Value| {
            item.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::new).collect()
        };
        let term = |term: &Value| {
            let expressions = term.items_at(&["matchLabelExpressions"]).iter();
            expressions.map(|item| (text(item, "key"), values(item))).collect()
        };
        let provisioner = text(class, "provisioner");
        let makes = provisioner != "kubernetes.io/no-provisioner";
        Class {
            provisioner: if makes { provisioner } else { Str::default() },
            waits: class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer"),
            topologies: class.items_at(&["allowedTopologies"]).iter().map(term).collect(),
        }
    }

    /// True if volumes are provisioned, and can be for a node.
    pub(crate) fn provisions_for(&self, node: &Node) -> bool {
        let has = |(key, values): &(Str, Vec<Str>)| {
            node.label(key).is_some_and(|label| values.iter().any(|value| value == label))
        };
        let serves = self.topologies.is_empty() || self.topologies.iter().any(|term| term.iter().all(has));
        !self.provisioner.is_empty() && serves
    }
}
