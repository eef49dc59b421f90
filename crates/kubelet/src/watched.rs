//! The config maps and secrets that this node's pods name: each is followed for as long as a pod names it, so that what is
//! mounted follows what is said. What cannot change is not followed once it is known.
//!
//! A node may see no others: it follows each alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value};
use corten_client::{Cache, Error, Key, Kind, kinds};
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::pod::Pod;

/// How long somebody waits for an object to be known before asking for it directly.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Which {
    ConfigMap,
    Secret,
}

impl Which {
    pub(crate) fn kind(self) -> &'static Kind {
        match self {
            Which::ConfigMap => &kinds::CONFIG_MAPS,
            Which::Secret => &kinds::SECRETS,
        }
    }
}

/// What is followed.
#[derive(Default)]
pub(crate) struct Watched(Mutex<HashMap<(Which, Key), Entry>>);

struct Entry {
    kind: Kind,
    cache: Arc<Cache>,
    /// The pods that name it.
    users: HashSet<String>,
    /// What it is for good.
    fixed: Option<Value>,
}

impl Watched {
    /// Follows what a pod names, and no longer what it named before.
    pub(crate) fn follow(machine: &Arc<Machine>, pod: &Pod) {
        let named: BTreeSet<(Which, Key)> = names(pod.tree())
            .into_iter()
            .map(|(which, name)| (which, Key::new(pod.namespace(), name)))
            .collect();
        machine.watched.leave(machine, pod.uid(), |what| !named.contains(what));
        for what in named {
            let mut entries = machine.watched.0.lock();
            if let Some(entry) = entries.get_mut(&what) {
                entry.users.insert(pod.uid().to_owned());
                continue;
            }
            let kind = what.0.kind().only(&what.1);
            let cache = machine.caches.of(&kind);
            let users = HashSet::from([pod.uid().to_owned()]);
            entries.insert(what.clone(), Entry { kind, cache: cache.clone(), users, fixed: None });
            drop(entries);
            let told = Arc::downgrade(machine);
            cache.subscribe(move |_| {
                if let Some(machine) = told.upgrade() {
                    machine.watched.users(&what).iter().for_each(|uid| machine.pods.refresh(uid));
                }
            });
        }
    }

    fn users(&self, what: &(Which, Key)) -> Vec<String> {
        self.0.lock().get(what).map(|entry| entry.users.iter().cloned().collect()).unwrap_or_default()
    }

    /// A pod is gone.
    pub(crate) fn forget(&self, machine: &Machine, uid: &str) {
        self.leave(machine, uid, |_| true);
    }

    fn leave(&self, machine: &Machine, uid: &str, which: impl Fn(&(Which, Key)) -> bool) {
        self.0.lock().retain(|what, entry| {
            let left = which(what) && entry.users.remove(uid) && entry.users.is_empty();
            if left {
                machine.caches.forget(&entry.kind);
            }
            !left
        });
    }

    /// An object; `None` if there is none.
    pub(crate) async fn get(
        &self,
        machine: &Machine,
        which: Which,
        key: &Key,
    ) -> Result<Option<Value>, Error> {
        let what = (which, key.clone());
        let found = self.0.lock().get(&what).map(|entry| (entry.cache.clone(), entry.fixed.clone()));
        let cache = match found {
            Some((_, Some(fixed))) => return Ok(Some(fixed)),
            Some((cache, None)) => cache,
            None => return asked(machine, which, key).await,
        };
        if machine.clock.timeout(PATIENCE, cache.synced()).await.is_none() {
            return asked(machine, which, key).await;
        }
        let object = cache.get(key).map(|object| object.tree());
        if let Some(object) = object.as_ref().filter(|object| object.bool_at(&["immutable"]) == Some(true))
            && let Some(entry) = self.0.lock().get_mut(&what)
        {
            entry.fixed = Some(object.clone());
            machine.caches.forget(&entry.kind);
        }
        Ok(object)
    }
}

/// What the API server says now.
async fn asked(machine: &Machine, which: Which, key: &Key) -> Result<Option<Value>, Error> {
    match machine.client.get(which.kind(), key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Everything that a pod names.
fn names(pod: &Value) -> BTreeSet<(Which, Str)> {
    let mut found = BTreeSet::new();
    let mut note = |which: Which, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            found.insert((which, Str::new(name)));
        }
    };
    for reference in pod.items_at(&["spec", "imagePullSecrets"]) {
        note(Which::Secret, reference.str_at(&["name"]));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        note(Which::ConfigMap, volume.str_at(&["configMap", "name"]));
        note(Which::Secret, volume.str_at(&["secret", "secretName"]));
        for source in volume.items_at(&["projected", "sources"]) {
            note(Which::ConfigMap, source.str_at(&["configMap", "name"]));
            note(Which::Secret, source.str_at(&["secret", "name"]));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.items_at(&["spec", list]) {
            for source in container.items_at(&["envFrom"]) {
                note(Which::ConfigMap, source.str_at(&["configMapRef", "name"]));
                note(Which::Secret, source.str_at(&["secretRef", "name"]));
            }
            for variable in container.items_at(&["env"]) {
                note(Which::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
                note(Which::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
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
    fn everything_a_pod_names() {
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
        let found = names(&json::parse(pod.as_bytes()).unwrap());
        let of = |which: Which| {
            let all = found.iter().filter(|(kind, _)| *kind == which);
            all.map(|(_, name)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(Which::ConfigMap), ["b", "d", "e"]);
        assert_eq!(of(Which::Secret), ["a", "c", "f", "g"]);
    }
}
