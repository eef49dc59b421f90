//! A kind of which pods do not name the objects they need: followed as a whole, from the first pod on that needs any, until
//! the last one is gone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corten_client::{Cache, Kind, Object};
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::pod::Pod;

/// How long somebody waits for the objects to be known.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Followed {
    kind: Kind,
    /// The part of a projected volume that needs it.
    part: &'static str,
    /// The pod that an object concerns; all of them without.
    whose: fn(&Object) -> Option<String>,
    users: Mutex<HashSet<String>>,
}

impl Followed {
    pub(crate) fn new(kind: Kind, part: &'static str, whose: fn(&Object) -> Option<String>) -> Followed {
        Followed { kind, part, whose, users: Mutex::default() }
    }

    /// Takes note of a pod: it looks again whenever something changes that concerns it.
    pub(crate) fn follow(machine: &Arc<Machine>, which: fn(&Machine) -> &Followed, pod: &Pod) {
        let followed = which(machine);
        if !needs(pod, followed.part) {
            return;
        }
        let mut users = followed.users.lock();
        let is_first = users.is_empty();
        users.insert(pod.uid().to_owned());
        if !is_first {
            return;
        }
        let told = Arc::downgrade(machine);
        machine.caches.of(&followed.kind).subscribe(move |change| {
            let Some(machine) = told.upgrade() else { return };
            let followed = which(&machine);
            let users: Vec<String> = match (followed.whose)(change.object()) {
                Some(uid) => followed.users.lock().get(&uid).cloned().into_iter().collect(),
                None => followed.users.lock().iter().cloned().collect(),
            };
            users.iter().for_each(|uid| machine.pods.refresh(uid));
        });
    }

    /// A pod is gone.
    pub(crate) fn forget(&self, machine: &Machine, uid: &str) {
        let mut users = self.users.lock();
        if users.remove(uid) && users.is_empty() {
            machine.caches.forget(&self.kind);
        }
    }

    /// The objects, if they are known by now.
    pub(crate) async fn objects(&self, machine: &Machine) -> Result<Arc<Cache>, String> {
        let cache = machine.caches.of(&self.kind);
        let synced = machine.clock.timeout(PATIENCE, cache.synced()).await;
        synced.map(|()| cache).ok_or_else(|| format!("{} informer has not yet synced", self.kind.kind))
    }
}

/// Whether a pod has a projected volume with such a part.
fn needs(pod: &Pod, part: &str) -> bool {
    let volumes = pod.tree().items_at(&["spec", "volumes"]).iter();
    let mut sources = volumes.flat_map(|volume| volume.items_at(&["projected", "sources"]));
    sources.any(|source| source.get(part).is_some())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    #[test]
    fn only_some_pods_need_something() {
        let pod = |source| Pod::new(value!({"spec": {"volumes": [{"emptyDir": {}}, (source)]}}), Source::Api);
        let bundle = pod(value!({"projected": {"sources": [{"secret": {}}, {"clusterTrustBundle": {}}]}}));
        assert!(needs(&bundle, "clusterTrustBundle") && !needs(&bundle, "podCertificate"));
        assert!(!needs(&pod(value!({"projected": {"sources": [{"secret": {}}]}})), "clusterTrustBundle"));
    }
}
