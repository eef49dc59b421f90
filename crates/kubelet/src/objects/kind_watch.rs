//! A watch of all objects of a kind, for kinds whose objects pods do not name: from the first pod that needs one to the
//! last.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_client::{Cache, Kind, Object};
use parking_lot::Mutex;

use super::PodObjects;
use crate::api_server::ApiServer;
use crate::kubelet::Kubelet;
use crate::pod::Pod;

/// The time that a volume waits for the cache to be synced.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct KindWatch {
    kind: Kind,
    /// The source of a projected volume that needs the kind.
    source: &'static str,
    /// The uid of the pod that an object concerns; `None` if it concerns all pods.
    pod_of: fn(&Object) -> Option<String>,
    /// This watch among the others: callbacks outlive borrows.
    this: fn(&PodObjects) -> &KindWatch,
    /// The uids of the pods that need the kind.
    users: Mutex<HashSet<String>>,
}

/// The cache of a kind is not synced yet.
#[derive(Debug, thiserror::Error)]
#[error("{kind} informer has not yet synced")]
pub(crate) struct NotSynced {
    kind: String,
}

impl KindWatch {
    pub(crate) fn new(
        kind: Kind,
        source: &'static str,
        pod_of: fn(&Object) -> Option<String>,
        this: fn(&PodObjects) -> &KindWatch,
    ) -> KindWatch {
        KindWatch { kind, source, pod_of, this, users: Mutex::default() }
    }

    /// Watches the kind if a pod needs it. A change that concerns the pod refreshes its volumes.
    pub(crate) fn watch(&self, kubelet: &Arc<Kubelet>, pod: &Pod) {
        if !needs(pod, self.source) {
            return;
        }
        let mut users = self.users.lock();
        let is_first = users.is_empty();
        users.insert(pod.uid().to_owned());
        if !is_first {
            return;
        }
        let (watching, this) = (Arc::downgrade(kubelet), self.this);
        kubelet.api.caches.of(&self.kind).subscribe(move |change| {
            let Some(kubelet) = watching.upgrade() else { return };
            let watch = this(&kubelet.objects);
            let users: Vec<String> = match (watch.pod_of)(change.object()) {
                Some(uid) => watch.users.lock().get(&uid).cloned().into_iter().collect(),
                None => watch.users.lock().iter().cloned().collect(),
            };
            users.iter().for_each(|uid| kubelet.pod_workers.refresh_volumes(uid));
        });
    }

    /// Ends the watch if this was the last pod that needs it.
    pub(crate) fn forget(&self, api: &ApiServer, uid: &str) {
        let mut users = self.users.lock();
        if users.remove(uid) && users.is_empty() {
            api.caches.forget(&self.kind);
        }
    }

    /// The objects of the kind.
    pub(crate) async fn objects(&self, api: &ApiServer, clock: &Clock) -> Result<Arc<Cache>, NotSynced> {
        let cache = api.caches.of(&self.kind);
        let synced = clock.timeout(SYNC_TIMEOUT, cache.synced()).await;
        synced.map(|()| cache).ok_or_else(|| NotSynced { kind: self.kind.kind.to_string() })
    }
}

/// Returns true if a pod has a projected volume with a source of this name.
fn needs(pod: &Pod, source: &str) -> bool {
    let volumes = pod.tree().items_at(&["spec", "volumes"]).iter();
    let mut sources = volumes.flat_map(|volume| volume.items_at(&["projected", "sources"]));
    sources.any(|projected| projected.get(source).is_some())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    #[test]
    fn a_projected_source_needs_its_kind() {
        let pod = |source| Pod::new(value!({"spec": {"volumes": [{"emptyDir": {}}, (source)]}}), Source::Api);
        let bundle = pod(value!({"projected": {"sources": [{"secret": {}}, {"clusterTrustBundle": {}}]}}));
        assert!(needs(&bundle, "clusterTrustBundle") && !needs(&bundle, "podCertificate"));
        assert!(!needs(&pod(value!({"projected": {"sources": [{"secret": {}}]}})), "clusterTrustBundle"));
    }
}
