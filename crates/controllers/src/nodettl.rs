//! TTL: tells nodes by an annotation for how long they may keep secrets and config maps, longer in larger clusters.
//!
//! Watches nodes. Writes that one annotation and nothing else.

use std::sync::Arc;

use corten_api::{Value, value};
use corten_client::{Cache, Change, Client, Error, Key, Patch, kinds};
use corten_reconcile::{Manager, Queue};
use parking_lot::Mutex;

use crate::nodes::{NodeView, TTL};

const NAME: &str = "ttl-controller";
const WORKERS: usize = 5;

/// Sizes of clusters, from and up to so many nodes, with the seconds that go with them. They overlap, so that one
/// node more or less does not change every node's annotation to and fro.
const SIZES: [(usize, usize, i64); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

pub(crate) fn start(manager: &Manager) {
    if !manager.is_selected(NAME) {
        return;
    }
    let queue = manager.queue(NAME);
    let nodes = manager.caches().of(&kinds::NODES);
    let size = Arc::new(Mutex::new(Size::default()));
    let (added, followed, counted) = (queue.clone(), Arc::downgrade(&nodes), size.clone());
    nodes.subscribe(move |change| {
        if counted.lock().count(change)
            && let Some(nodes) = followed.upgrade()
        {
            nodes.list("").iter().for_each(|node| added.add(node.key.clone()));
        }
        let wanted = Some(counted.lock().seconds());
        if change.new.as_ref().is_some_and(|node| node.view::<NodeView>().ttl != wanted) {
            added.add(change.object().key.clone());
        }
    });
    for _ in 0..WORKERS {
        let writer = Writer { nodes: nodes.clone(), size: size.clone(), client: manager.client_for(NAME) };
        manager.spawn(writer.run(queue.clone()));
    }
}

/// How large the cluster is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    nodes: usize,
    step: usize,
}

impl Size {
    fn seconds(&self) -> i64 {
        SIZES[self.step].2
    }

    /// Takes note of a node that came or went; whether the cluster has got another size.
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

struct Writer {
    client: Client,
    nodes: Arc<Cache>,
    size: Arc<Mutex<Size>>,
}

impl Writer {
    async fn run(self, queue: Arc<Queue>) {
        self.nodes.synced().await;
        loop {
            let key = queue.next().await;
            let failed = self.write(&key).await.is_err();
            queue.done(&key, failed, None);
        }
    }

    async fn write(&self, key: &Key) -> Result<(), Error> {
        let seconds = self.size.lock().seconds();
        let Some(node) = self.nodes.get(key) else { return Ok(()) };
        if node.view::<NodeView>().ttl == Some(seconds) {
            return Ok(());
        }
        match self.client.patch(&kinds::NODES, key, &Patch::Strategic(annotation(seconds)), "").await {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(controller = NAME, node = %key, %error, "request failed");
                Err(error)
            }
            _ => Ok(()),
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
    use crate::testing::cached;

    /// The seconds after the cluster has had so many nodes, one after another.
    fn seconds(history: &[usize]) -> i64 {
        let node = cached(&value!({"metadata": {"name": "n"}}));
        let came = Change { old: None, new: Some(node.clone()) };
        let went = Change { old: Some(node), new: None };
        let mut size = Size::default();
        for nodes in history {
            while size.nodes != *nodes {
                size.count(if size.nodes < *nodes { &came } else { &went });
            }
        }
        size.seconds()
    }

    #[test]
    fn larger_clusters_keep_longer() {
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
    fn a_change_of_a_node_is_not_another_node() {
        let node = cached(&value!({"metadata": {"name": "n"}}));
        let mut size = Size { nodes: 100, step: 0 };
        assert!(!size.count(&Change { old: Some(node.clone()), new: Some(node.clone()) }));
        assert!(size.count(&Change { old: None, new: Some(node) }));
    }

    #[test]
    fn the_annotation_is_text() {
        assert_eq!(
            annotation(15),
            value!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "15"}}})
        );
    }
}
