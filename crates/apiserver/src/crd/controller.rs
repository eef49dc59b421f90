//! Reconciles definitions: their names and conditions, the APIServices of their versions, and the removal of the objects
//! of deleted ones.
//!
//! Runs when a definition changes, and at no other time. What to write is decided by `conditions`, which definitions a
//! change concerns by `names`; this file only writes.
//! A deleted definition has a task of its own, because its objects may be held by finalizers for as long as they like.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Status, Str, Value, meta, time};
use tokio::task::JoinSet;

use super::conditions::{self, CLEANUP, Taken};
use super::definition::is_true;
use super::names::NameIndex;
use super::version::IDLE;
use super::{GROUP, RESOURCE};
use crate::Server;
use crate::bootstrap::{Failure, Kind, Local, api_services};
use crate::cache::Cache;
use crate::call::Call;
use crate::object::Object;
use crate::verbs::delete;

const KIND: Kind = Kind { group: GROUP, version: "v1", resource: RESOURCE, kind: "CustomResourceDefinition" };

/// The time after which the removal of objects is reported as stuck and tried again.
const STUCK: Duration = Duration::from_secs(60);
/// The delay before a failed write is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Reconciles all definitions until the server stops.
pub(crate) async fn run(server: Arc<Server>) {
    let Some(cache) = Local::new(&server).cache(&KIND) else { return };
    let mut changes = cache.progress();
    let mut known = Known::default();
    let idle = tokio::spawn(drop_idle(server.clone()));
    loop {
        changes.mark_unchanged();
        let failed = reconcile(&server, &cache, &mut known).await;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { break },
            () = server.backend.clock.sleep(RETRY), if failed => {}
        }
    }
    idle.abort();
}

/// Drops compiled types that were not used for a while. Sleeps for as long as there are none.
async fn drop_idle(server: Arc<Server>) {
    let definitions = &server.backend.catalog.definitions;
    loop {
        definitions.compiled().await;
        loop {
            server.backend.clock.sleep(IDLE).await;
            if !definitions.drop_idle() {
                break;
            }
        }
    }
}

/// The definitions as they were last reconciled.
#[derive(Default)]
struct Known {
    /// In order of their keys.
    objects: Vec<Arc<Object>>,
    names: NameIndex,
    removals: Removals,
    /// The definitions whose status could not be written.
    unwritten: BTreeSet<Str>,
    /// The groups whose APIServices could not be written; `None` before the first time, when all are corrected.
    unregistered: Option<BTreeSet<Str>>,
}

/// Brings all changed definitions up to date. Returns true if a write failed and has to be tried again.
async fn reconcile(server: &Arc<Server>, cache: &Arc<Cache>, known: &mut Known) -> bool {
    let objects = cache.snapshot("", None).objects;
    let changes = changes(&known.objects, &objects);
    let is_first = known.unregistered.is_none();
    let mut groups = known.unregistered.take().unwrap_or_default();
    let mut concerned = std::mem::take(&mut known.unwritten);
    for gone in &changes.gone {
        groups.extend(known.names.group_of(&gone.name));
        known.names.remove(&gone.name);
    }
    for changed in &changes.new {
        groups.extend(known.names.group_of(&changed.name));
        index(server, &mut known.names, &changed.name, &changed.tree());
        groups.extend(known.names.group_of(&changed.name));
        concerned.insert(changed.name.clone());
    }
    // A definition that changes or goes may free names.
    concerned.extend(groups.iter().flat_map(|group| known.names.waiting(group)));
    drop(changes);
    known.objects = objects;
    for name in concerned {
        evaluate(server, cache, known, &name).await;
    }
    let mut versions: Vec<(Str, Str)> = Vec::new();
    for group in &groups {
        versions.extend(known.names.versions(group).map(|version| (group.clone(), version.clone())));
    }
    let concerns = |group: &str| is_first || groups.contains(group);
    let registered = api_services::ensure_custom(&Local::new(server), &versions, concerns).await;
    known.unregistered = Some(BTreeSet::new());
    if let Err(failure) = registered {
        tracing::warn!(err = %failure, "cannot reconcile APIServices of custom resources; retrying");
        known.unregistered = if is_first { None } else { Some(groups) };
        return true;
    }
    !known.unwritten.is_empty()
}

/// Writes the status of one definition if it changes, and starts the removal of its objects if it is deleted.
async fn evaluate(server: &Arc<Server>, cache: &Arc<Cache>, known: &mut Known, name: &Str) {
    let Some(current) = cache.get("", name) else { return };
    let (local, definition) = (Local::new(server), current.tree());
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    let (none, now) = (Taken::default(), time::format(local.now()));
    let taken = known.names.taken(group).unwrap_or(&none);
    if let Some(new) = conditions::reconciled(&definition, taken, &now) {
        match write_status(&local, &new).await {
            // The definitions after it must see the names it has taken.
            Ok(()) => index(server, &mut known.names, name, &new),
            Err(_) => drop(known.unwritten.insert(name.clone())),
        }
    }
    if meta::is_deleting(&definition) && meta::finalizers(&definition).any(|f| f == CLEANUP) {
        known.removals.start(server, name);
    }
}

/// Updates the index. Reads the definition for requests, too: watches of a resource that changed end now.
fn index(server: &Server, names: &mut NameIndex, name: &str, definition: &Value) {
    let versions = server.backend.catalog.definitions.served_versions(name);
    names.set(name, definition, versions);
}

/// The difference between two states of a cache, both in order of keys.
#[derive(Debug, Default)]
struct Changes<'o> {
    /// Created or changed.
    new: Vec<&'o Arc<Object>>,
    gone: Vec<&'o Arc<Object>>,
}

/// Compares object by object: the cost of an unchanged one is that of comparing two pointers.
fn changes<'o>(old: &'o [Arc<Object>], new: &'o [Arc<Object>]) -> Changes<'o> {
    let (mut changes, mut old) = (Changes::default(), old.iter().peekable());
    for object in new {
        while let Some(gone) = old.next_if(|old| !Arc::ptr_eq(old, object) && old.key < object.key) {
            changes.gone.push(gone);
        }
        match old.next_if(|old| Arc::ptr_eq(old, object) || old.key == object.key) {
            Some(old) if old.revision == object.revision => {}
            _ => changes.new.push(object),
        }
    }
    changes.gone.extend(old);
    changes
}

async fn write_status(local: &Local<'_>, definition: &Value) -> Result<(), Failure> {
    local.update_status(&KIND, definition).await.inspect_err(|failure| {
        tracing::warn!(crd = meta::name(definition), err = %failure, "cannot update status of custom resource definition; retrying");
    })
}

/// The running removals of objects, by definition.
#[derive(Default)]
struct Removals {
    tasks: JoinSet<String>,
    running: BTreeSet<String>,
}

impl Removals {
    fn start(&mut self, server: &Arc<Server>, name: &str) {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Ok(name) = ended {
                self.running.remove(&name);
            }
        }
        if !self.running.insert(name.to_owned()) {
            return;
        }
        let (server, name) = (server.clone(), name.to_owned());
        self.tasks.spawn(async move {
            remove(&server, &name).await;
            name
        });
    }
}

/// Removes the objects of a deleted definition, then the definition's finalizer.
async fn remove(server: &Arc<Server>, name: &str) {
    let local = Local::new(server);
    loop {
        let Some(mut definition) = local.get(&KIND, "", name) else { return };
        if !meta::is_deleting(&definition) || !meta::finalizers(&definition).any(|f| f == CLEANUP) {
            return;
        }
        let now = time::format(local.now());
        let set = |definition: &mut Value, status: &str, reason: &str, message: &str| {
            conditions::set_condition(definition, "Terminating", status, reason, message, &now);
        };
        let (reason, message) = if is_true(&definition, "Established") {
            let started = "CustomResource deletion is in progress";
            set(&mut definition, "True", "InstanceDeletionInProgress", started);
            if write_status(&local, &definition).await.is_err() {
                server.backend.clock.sleep(RETRY).await;
                continue;
            }
            match remove_objects(server, name).await {
                Ok(()) => ("InstanceDeletionCompleted", "removed all instances"),
                Err((reason, message)) => {
                    let Some(mut definition) = local.get(&KIND, "", name) else { return };
                    set(&mut definition, "True", reason, &message);
                    // The next attempt reports again.
                    let _ = write_status(&local, &definition).await;
                    server.backend.clock.sleep(RETRY).await;
                    continue;
                }
            }
        } else {
            ("NeverEstablished", "resource was never established")
        };
        let Some(mut definition) = local.get(&KIND, "", name) else { return };
        set(&mut definition, "False", reason, message);
        let kept: Vec<Value> =
            meta::finalizers(&definition).filter(|f| *f != CLEANUP).map(Value::from).collect();
        meta::of(&mut definition).insert("finalizers", kept);
        if write_status(&local, &definition).await.is_err() {
            server.backend.clock.sleep(RETRY).await;
        }
    }
}

/// Deletes all objects of a definition and waits until they are gone.
async fn remove_objects(server: &Arc<Server>, name: &str) -> Result<(), (&'static str, String)> {
    let missing =
        || ("InstanceDeletionFailed", "could not list instances: definition is not served".to_owned());
    let served = server.backend.catalog.definitions.stored(name).ok_or_else(missing)?;
    let cache = served.cache.clone().ok_or_else(missing)?;
    let namespaces: BTreeSet<_> =
        cache.snapshot("", None).objects.iter().map(|object| object.namespace.clone()).collect();
    for namespace in namespaces {
        let mut call = Call::for_server(&server.backend, served.clone(), &namespace, "");
        let refused = |status: Status| {
            ("InstanceDeletionFailed", format!("could not issue all deletes: {}", status.message))
        };
        delete::delete_collection(&mut call).await.map_err(refused)?;
    }
    let mut progress = cache.progress();
    let gone = async {
        while cache.len() > 0 {
            if progress.changed().await.is_err() || cache.has_ended() {
                return;
            }
        }
    };
    tokio::select! {
        () = gone => Ok(()),
        () = server.backend.clock.sleep(STUCK) => {
            let why = "could not confirm zero CustomResources remaining: timed out waiting for the condition";
            Err(("InstanceDeletionCheck", why.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_store::Entry;

    use super::*;
    use crate::cache::tests::configmaps;

    fn object(key: &str, revision: u64) -> Arc<Object> {
        let entry = Entry {
            key: key.into(),
            value: "{}".into(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: None,
            note: None,
        };
        Arc::new(configmaps().parse(&entry).unwrap())
    }

    #[track_caller]
    fn check(old: &[(&str, u64)], new: &[(&str, u64)], changed: &[&str], gone: &[&str]) {
        let state = |objects: &[(&str, u64)]| -> Vec<Arc<Object>> {
            objects.iter().map(|(key, revision)| object(key, *revision)).collect()
        };
        let (old, new) = (state(old), state(new));
        let found = changes(&old, &new);
        let keys =
            |objects: &[&Arc<Object>]| -> Vec<String> { objects.iter().map(|o| o.key.to_string()).collect() };
        assert_eq!(keys(&found.new), changed, "changed");
        assert_eq!(keys(&found.gone), gone, "gone");
    }

    #[test]
    fn changes_between_two_states() {
        check(&[], &[("a", 1), ("b", 2)], &["a", "b"], &[]);
        check(&[("a", 1), ("b", 2)], &[("a", 1), ("b", 2)], &[], &[]);
        check(&[("a", 1), ("b", 2), ("c", 3)], &[("a", 1), ("b", 4), ("c", 3)], &["b"], &[]);
        check(&[("a", 1), ("b", 2), ("c", 3)], &[("b", 2)], &[], &["a", "c"]);
        check(&[("b", 2), ("d", 3)], &[("a", 4), ("b", 2), ("c", 5)], &["a", "c"], &["d"]);
        check(&[("a", 1)], &[], &[], &["a"]);
    }
}
