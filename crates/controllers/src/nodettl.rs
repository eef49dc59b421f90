//! TTL controller: annotates nodes with the time for which kubelets may cache secrets and config maps, longer in larger
//! clusters.
//!
//! Watches nodes. Writes that one annotation and nothing else.

use std::sync::Arc;

use corten_api::{Value, value};
use corten_client::{Caches, Change, Key, Patch, kinds};
use corten_reconcile::{Action, Controller, Manager, Plan, Watch};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::nodes::{NodeView, TTL};

const NAME: &str = "ttl-controller";

/// Cluster sizes, as the least and the largest number of nodes, and the seconds for each. They overlap, so that one
/// node more or less does not change every node's annotation back and forth.
const SIZES: [(usize, usize, i64); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// Starts the controller. A node that is added or deleted may change the annotation of all nodes, which no key function
/// of a `Watch` can say: it keeps no state.
pub(crate) fn start(manager: &Manager) {
    let size = Arc::new(Mutex::new(Size::default()));
    let Some(queue) = manager.run(NodeTtl { size: size.clone() }) else { return };
    let nodes = manager.caches().of(&kinds::NODES);
    let all = Arc::downgrade(&nodes);
    nodes.subscribe(move |change| {
        if size.lock().count(change)
            && let Some(nodes) = all.upgrade()
        {
            nodes.list("").iter().for_each(|node| queue.add(node.key.clone()));
        }
        let desired = Some(size.lock().seconds());
        if change.new.as_ref().is_some_and(|node| node.view::<NodeView>().ttl != desired) {
            queue.add(change.object().key.clone());
        }
    });
}

/// The size of the cluster: its number of nodes and its entry in `SIZES`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    nodes: usize,
    step: usize,
}

impl Size {
    fn seconds(&self) -> i64 {
        SIZES[self.step].2
    }

    /// Counts an added or deleted node. Returns true if the cluster has moved to another entry of `SIZES`.
    fn count(&mut self, change: &Change) -> bool {
        match (&change.old, &change.new) {
            (None, Some(_)) => self.nodes += 1,
            (Some(_), None) => self.nodes = self.nodes.saturating_sub(1),
            _ => {}
        }
        let before = self.step;
        let (from, to, _) = SIZES[self.step];
        if self.nodes > to {
            self.step += 1;
        } else if self.nodes < from {
            self.step -= 1;
        }
        self.step != before
    }
}

struct NodeTtl {
    size: Arc<Mutex<Size>>,
}

/// The annotation of one node.
struct World {
    /// `None` if the node does not exist.
    actual: Option<Option<i64>>,
    desired: i64,
}

impl Controller for NodeTtl {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::lookup(&kinds::NODES)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let node = caches.of(&kinds::NODES).get(key);
        World { actual: node.map(|node| node.view::<NodeView>().ttl), desired: self.size.lock().seconds() }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        match world.actual {
            Some(actual) if actual != Some(world.desired) => {
                let patch = Patch::Strategic(annotation(world.desired));
                Plan::done().then(Action::Patch {
                    kind: &kinds::NODES,
                    key: key.clone(),
                    patch,
                    subresource: "",
                })
            }
            _ => Plan::done(),
        }
    }
}

fn annotation(seconds: i64) -> Value {
    let mut patch = value!({});
    patch.set(&["metadata", "annotations", TTL], seconds.to_string());
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, cached};

    /// The seconds after the cluster has had these numbers of nodes, one after another.
    fn seconds(history: &[usize]) -> i64 {
        let node = cached(&value!({"metadata": {"name": "n"}}));
        let added = Change { old: None, new: Some(node.clone()) };
        let deleted = Change { old: Some(node), new: None };
        let mut size = Size::default();
        for nodes in history {
            while size.nodes != *nodes {
                size.count(if size.nodes < *nodes { &added } else { &deleted });
            }
        }
        size.seconds()
    }

    #[test]
    fn larger_clusters_have_a_longer_ttl() {
        for (history, expected) in [
            (&[0][..], 0),
            (&[100], 0),
            (&[101], 15),
            (&[101, 90], 15),
            (&[101, 89], 0),
            (&[501], 30),
            (&[1001], 60),
            (&[1001, 899], 30),
            (&[5000], 300),
            (&[5000, 1800], 300),
            (&[5000, 1799], 60),
            (&[5000, 0], 0),
        ] {
            assert_eq!(seconds(history), expected, "{history:?}");
        }
    }

    #[test]
    fn an_updated_node_is_not_counted_again() {
        let node = cached(&value!({"metadata": {"name": "n"}}));
        let mut size = Size { nodes: 100, step: 0 };
        assert!(!size.count(&Change { old: Some(node.clone()), new: Some(node.clone()) }));
        assert!(size.count(&Change { old: None, new: Some(node) }));
    }

    #[test]
    fn only_a_node_with_another_ttl_is_patched() {
        let size = Arc::default();
        for (actual, patches) in [(None, 0), (Some(None), 1), (Some(Some(15)), 0), (Some(Some(0)), 1)] {
            let world = World { actual, desired: 15 };
            let plan = NodeTtl { size: Arc::clone(&size) }.plan(&Key::new("", "n"), &world, at(0));
            assert_eq!(plan.actions().count(), patches, "{actual:?}");
        }
    }

    #[test]
    fn the_annotation_is_text() {
        assert_eq!(
            annotation(15),
            value!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "15"}}})
        );
    }
}
