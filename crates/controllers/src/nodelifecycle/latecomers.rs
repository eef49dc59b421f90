//! Pods that come to a node which is not ready: they are said not to be ready either. Those that were there before
//! are the monitor's.

use corten_client::{Cache, Change, Key, Object, kinds};
use corten_reconcile::Manager;

use super::writes::Writes;
use crate::nodes::NodeView;
use crate::pods::PodView;

const QUEUE: &str = "node_lifecycle_controller_pods";

pub(super) fn start(manager: &Manager) {
    let (pods, nodes) = (manager.caches().of(&kinds::PODS), manager.caches().of(&kinds::NODES));
    let writes = Writes::new(manager);
    let queue = manager.queue(QUEUE);
    let (added, known) = (queue.clone(), nodes.clone());
    pods.subscribe(move |change| {
        if let Some(pod) = newly_bound(change).filter(|pod| is_late(pod, &known)) {
            added.add(pod.key.clone());
        }
    });
    manager.spawn(async move {
        loop {
            let key = queue.next().await;
            let late = pods.get(&key).filter(|pod| is_late(pod, &nodes));
            let marked = writes.mark_not_ready(late.as_slice()).await;
            queue.done(&key, marked.is_err(), None);
        }
    });
}

/// The pod, if it has just got its node.
fn newly_bound(change: &Change) -> Option<&Object> {
    let node = |pod: &Object| pod.view::<PodView>().node.clone();
    let new = change.new.as_deref()?;
    let bound = node(new);
    (!bound.is_empty() && change.old.as_deref().is_none_or(|old| node(old) != bound)).then_some(new)
}

/// Whether a pod is on a node that says it is not ready.
fn is_late(pod: &Object, nodes: &Cache) -> bool {
    let key = Key::new("", pod.view::<PodView>().node.clone());
    nodes.get(&key).is_some_and(|node| {
        let node = node.view::<NodeView>();
        node.ready.is_some() && !node.is_ready()
    })
}
