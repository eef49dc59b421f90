//! The API server as a pod source: the pods that are bound to this node.

use std::sync::Arc;

use super::mirror_pods;
use crate::kubelet::Kubelet;
use crate::pod::{Pod, Source};
use crate::pod_workers::PodWorkers;

/// Passes changes of bound pods to their workers. A change of a mirror pod makes its static pod sync.
pub(crate) fn watch_bound_pods(kubelet: &Arc<Kubelet>) {
    let watching = kubelet.clone();
    kubelet.api.bound_pods().subscribe(move |change| {
        // A pod of the same name with another uid is another pod: the old one was deleted.
        let old = change.old.as_ref().filter(|old| change.new.as_ref().is_none_or(|new| new.uid != old.uid));
        if let Some(old) = old {
            watching.pod_workers.remove_pod(&old.uid);
            watching.pod_workers.sync_static_pod(&old.key);
        }
        let Some(new) = &change.new else { return };
        let tree = new.tree();
        if mirror_pods::is_mirror(&tree) {
            watching.pod_workers.sync_static_pod(&new.key);
        } else {
            PodWorkers::update_pod(&watching, Pod::new(tree, Source::Api));
        }
    });
}
