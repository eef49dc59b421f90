//! The config maps and secrets that this node's pods name: one watch for each, shared by the pods that name it, so that
//! volumes follow their changes. An immutable object is not watched once it is known.
//!
//! Each is watched alone, because the node may see no others.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value};
use corten_base::Clock;
use corten_client::{Cache, Error, Key, Kind, kinds};
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::kubelet::Kubelet;
use crate::pod::Pod;

/// The time that a reader waits for a watch to sync before it reads the object from the API server.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);

/// The kinds of objects that pods name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ObjectKind {
    ConfigMap,
    Secret,
}

impl ObjectKind {
    fn kind(self) -> &'static Kind {
        match self {
            ObjectKind::ConfigMap => &kinds::CONFIG_MAPS,
            ObjectKind::Secret => &kinds::SECRETS,
        }
    }
}

/// The watched objects.
#[derive(Default)]
pub(crate) struct NamedObjects(Mutex<HashMap<(ObjectKind, Key), Entry>>);

struct Entry {
    kind: Kind,
    cache: Arc<Cache>,
    /// The uids of the pods that name it.
    users: HashSet<String>,
    /// The object, if it is immutable.
    immutable: Option<Value>,
}

impl NamedObjects {
    /// Watches the objects that a pod names, and no longer those it named before.
    pub(crate) fn watch(kubelet: &Arc<Kubelet>, pod: &Pod) {
        let named: BTreeSet<(ObjectKind, Key)> = references(pod.tree())
            .into_iter()
            .map(|(kind, name)| (kind, Key::new(pod.namespace(), name)))
            .collect();
        let objects = &kubelet.objects.named;
        objects.release(&kubelet.api, pod.uid(), |object| !named.contains(object));
        for object in named {
            let mut entries = objects.0.lock();
            if let Some(entry) = entries.get_mut(&object) {
                entry.users.insert(pod.uid().to_owned());
                continue;
            }
            let kind = object.0.kind().only(&object.1);
            let cache = kubelet.api.caches.of(&kind);
            let users = HashSet::from([pod.uid().to_owned()]);
            entries.insert(object.clone(), Entry { kind, cache: cache.clone(), users, immutable: None });
            drop(entries);
            let watching = Arc::downgrade(kubelet);
            cache.subscribe(move |_| {
                if let Some(kubelet) = watching.upgrade() {
                    let users = kubelet.objects.named.users(&object);
                    users.iter().for_each(|uid| kubelet.pod_workers.refresh_volumes(uid));
                }
            });
        }
    }

    fn users(&self, object: &(ObjectKind, Key)) -> Vec<String> {
        self.0.lock().get(object).map(|entry| entry.users.iter().cloned().collect()).unwrap_or_default()
    }

    /// Ends the watches that only this pod used.
    pub(crate) fn forget(&self, api: &ApiServer, uid: &str) {
        self.release(api, uid, |_| true);
    }

    fn release(&self, api: &ApiServer, uid: &str, which: impl Fn(&(ObjectKind, Key)) -> bool) {
        self.0.lock().retain(|object, entry| {
            let unused = which(object) && entry.users.remove(uid) && entry.users.is_empty();
            if unused {
                api.caches.forget(&entry.kind);
            }
            !unused
        });
    }

    /// An object of a pod's namespace; `None` if it does not exist.
    pub(crate) async fn get(
        &self,
        api: &ApiServer,
        clock: &Clock,
        kind: ObjectKind,
        pod: &Pod,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        let key = Key::new(pod.namespace(), name);
        let object = (kind, key.clone());
        let found = self.0.lock().get(&object).map(|entry| (entry.cache.clone(), entry.immutable.clone()));
        let cache = match found {
            Some((_, Some(immutable))) => return Ok(Some(immutable)),
            Some((cache, None)) => cache,
            None => return api.get_in_namespace(kind.kind(), pod, name).await,
        };
        if clock.timeout(SYNC_TIMEOUT, cache.synced()).await.is_none() {
            return api.get_in_namespace(kind.kind(), pod, name).await;
        }
        let tree = cache.get(&key).map(|object| object.tree());
        if let Some(tree) = tree.as_ref().filter(|tree| tree.bool_at(&["immutable"]) == Some(true))
            && let Some(entry) = self.0.lock().get_mut(&object)
        {
            entry.immutable = Some(tree.clone());
            api.caches.forget(&entry.kind);
        }
        Ok(tree)
    }
}

/// The config maps and secrets that a pod names.
fn references(pod: &Value) -> BTreeSet<(ObjectKind, Str)> {
    let mut found = BTreeSet::new();
    let mut note = |kind: ObjectKind, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            found.insert((kind, Str::new(name)));
        }
    };
    for reference in pod.items_at(&["spec", "imagePullSecrets"]) {
        note(ObjectKind::Secret, reference.str_at(&["name"]));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        note(ObjectKind::ConfigMap, volume.str_at(&["configMap", "name"]));
        note(ObjectKind::Secret, volume.str_at(&["secret", "secretName"]));
        for source in volume.items_at(&["projected", "sources"]) {
            note(ObjectKind::ConfigMap, source.str_at(&["configMap", "name"]));
            note(ObjectKind::Secret, source.str_at(&["secret", "name"]));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.items_at(&["spec", list]) {
            for source in container.items_at(&["envFrom"]) {
                note(ObjectKind::ConfigMap, source.str_at(&["configMapRef", "name"]));
                note(ObjectKind::Secret, source.str_at(&["secretRef", "name"]));
            }
            for variable in container.items_at(&["env"]) {
                note(ObjectKind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
                note(ObjectKind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[test]
    fn all_references_of_a_pod_are_found() {
        let pod = r#"{"spec": {
            "imagePullSecrets": [{"name": "a"}],
            "volumes": [
                {"configMap": {"name": "b"}}, {"secret": {"secretName": "c"}}, {"emptyDir": {}},
                {"projected": {"sources": [{"configMap": {"name": "d"}}, {"secret": {"name": "a"}}]}}
            ],
            "initContainers": [{"envFrom": [{"configMapRef": {"name": "e"}}, {"secretRef": {"name": "f"}}]}],
            "containers": [{"env": [
                {"name": "x", "value": "y"}, {"valueFrom": {"secretKeyRef": {"name": "g"}}},
                {"valueFrom": {"configMapKeyRef": {"name": ""}}}
            ]}]
        }}"#;
        let found = references(&json::parse(pod.as_bytes()).unwrap());
        let of = |kind: ObjectKind| {
            let all = found.iter().filter(|(found, _)| *found == kind);
            all.map(|(_, name)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(ObjectKind::ConfigMap), ["b", "d", "e"]);
        assert_eq!(of(ObjectKind::Secret), ["a", "c", "f", "g"]);
    }
}
