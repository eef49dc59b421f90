//! Garbage collector: deletes objects whose owners are gone, and holds terminating owners until their dependents are
//! deleted or orphaned, as their deletion requested.
//!
//! Watches every kind and keeps a graph of owners. Removes the finalizers `foregroundDeletion` and `orphan`, and owner
//! references to absent objects. Never deletes by the graph alone: an object is deleted only if the API server confirms
//! that none of its owners exists.
//!
//! Not a `Controller`: its kinds are discovered at run time, and its keys are uids of the graph.

mod decision;
mod graph;
mod monitor;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use corten_api::{Str, Value, meta, value};
use corten_client::{Client, DeleteOptions, Discovery, Error, Key, Kind, Owner, Patch, kinds};
use corten_reconcile::{Event, Manager, Queue, Recorder};
use futures_util::{TryStreamExt, stream};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use decision::{Decision, FOREGROUND, ORPHAN, OwnerState};
use graph::{Facts, Graph, Identity, NodeState, Work};

const NAME: &str = "garbage-collector-controller";
const ACCOUNT: &str = "generic-garbage-collector";
const WORKERS: usize = 20;

/// The state shared by monitors and workers.
struct Garbage {
    graph: Mutex<Graph>,
    discovery: RwLock<Arc<Discovery>>,
    /// Notified when the discovered kinds may be outdated.
    stale: Notify,
    queue: Arc<Queue>,
    recorder: Recorder,
}

pub(crate) fn start(manager: &Manager) {
    if !manager.is_selected(NAME) {
        return;
    }
    let garbage = Arc::new(Garbage {
        graph: Mutex::default(),
        discovery: RwLock::default(),
        stale: Notify::new(),
        queue: manager.queue(NAME),
        recorder: manager.recorder().clone(),
    });
    for kind in [&kinds::CUSTOM_RESOURCE_DEFINITIONS, &kinds::API_SERVICES] {
        let garbage = garbage.clone();
        manager.caches().of(kind).subscribe(move |_| garbage.stale.notify_one());
    }
    let client = manager.client_for(ACCOUNT);
    let (ready, is_ready) = watch::channel(false);
    manager.spawn(monitor::follow_all(garbage.clone(), client.clone(), manager.clock().clone(), ready));
    for _ in 0..WORKERS {
        let worker = Worker { garbage: garbage.clone(), client: client.clone() };
        manager.spawn(worker.run(is_ready.clone()));
    }
}

impl Garbage {
    fn present(&self, facts: Facts) {
        let work = self.graph.lock().present(facts);
        self.queue_work(work);
    }

    fn gone(&self, uid: &str) {
        let work = self.graph.lock().gone(uid);
        self.queue_work(work);
    }

    fn absent(&self, identity: &Identity) {
        let work = self.graph.lock().absent(identity);
        self.queue_work(work);
    }

    /// Queues work. A key of the queue is a kind of work and the uid it is about.
    fn queue_work(&self, work: Vec<Work>) {
        for work in work {
            match work {
                Work::Delete(uid) => self.queue.add(Key::new("", uid)),
                Work::Orphan(uid) => self.queue.add(Key::new(ORPHAN, uid)),
                Work::Report(object, owner) => self.recorder.record(strange_owner(&object, &owner)),
            }
        }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Kind, ProcessError> {
        let known = self.discovery.read().kind(api_version, kind).cloned();
        known.ok_or_else(|| {
            self.stale.notify_one();
            ProcessError::UnknownKind
        })
    }
}

fn strange_owner(object: &Identity, owner: &Owner) -> Event {
    let about = value!({
        "apiVersion": (object.api_version.clone()), "kind": (object.kind.clone()),
        "metadata": {
            "name": (object.name.clone()), "namespace": (object.namespace.clone()), "uid": (object.uid.clone()),
        },
    });
    let Owner { api_version, kind, name, uid, .. } = owner;
    let namespace = &object.namespace;
    let owner = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]");
    let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
    Event::warning(NAME, &about, "OwnerRefInvalidNamespace", message)
}

/// The reason why an object could not be processed.
#[derive(Debug)]
enum ProcessError {
    /// It does not exist; the graph is updated.
    Absent,
    /// A reference that can never be resolved.
    Hopeless,
    /// Of a kind that the API server does not serve, or not yet.
    UnknownKind,
    Request(Error),
}

impl From<Error> for ProcessError {
    fn from(error: Error) -> ProcessError {
        ProcessError::Request(error)
    }
}

struct Worker {
    garbage: Arc<Garbage>,
    client: Client,
}

impl Worker {
    async fn run(self, mut ready: watch::Receiver<bool>) {
        // Before all kinds are synced, many objects seem to have no owner.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            let key = self.garbage.queue.next().await;
            let again = self.process(&key).await;
            self.garbage.queue.done(&key, again, None);
        }
    }

    /// Processes one object. Returns true if it has to be retried.
    async fn process(&self, key: &Key) -> bool {
        let Some(seen) = self.garbage.graph.lock().state_of(&key.name) else { return false };
        let done = if key.namespace == ORPHAN {
            self.orphan_dependents(&seen.facts.identity).await
        } else {
            self.collect(&seen).await
        };
        match done {
            // It exists and was not observed yet: the watch event is still to come.
            Ok(()) => seen.is_virtual,
            Err(ProcessError::Absent | ProcessError::Hopeless) => false,
            Err(ProcessError::UnknownKind) => true,
            Err(ProcessError::Request(error)) => {
                if !error.is_conflict() && !error.is_not_found() {
                    let Identity { kind, namespace, name, .. } = &seen.facts.identity;
                    tracing::warn!(%kind, %namespace, %name, err = %error, "garbage collection failed; retrying");
                }
                true
            }
        }
    }

    /// Deletes an object if none of its owners exists, or removes its finalizer if nothing blocks it any more.
    async fn collect(&self, seen: &NodeState) -> Result<(), ProcessError> {
        let Facts { identity, deleting, waits_for_deletion, .. } = &seen.facts;
        if *deleting && !waits_for_deletion {
            return Ok(());
        }
        let kind = self.garbage.kind(&identity.api_version, &identity.kind)?;
        let latest = self.latest(&kind, identity).await?;
        if *waits_for_deletion {
            return self.wait_for_dependents(&kind, identity, &latest).await;
        }
        let mut owners = Vec::new();
        for owner in Owner::all(&latest) {
            let owner_state = self.owner_state(&owner, identity).await?;
            owners.push((owner.uid, owner_state));
        }
        match decision::decide(&latest, &owners, seen.has_dependents, seen.dependent_waits) {
            Decision::Keep => Ok(()),
            Decision::DropOwners(uids) => self.drop_owners(&kind, &latest, &uids).await,
            Decision::Delete { policy, unblock } => {
                let latest = if unblock { self.unblock(&kind, &latest).await? } else { latest };
                let options = DeleteOptions {
                    propagation: Some(policy),
                    uid: Some(identity.uid.clone()),
                    resource_version: Some(meta::resource_version(&latest).into()),
                    grace_seconds: None,
                };
                match self.client.delete(&kind, &Key::of(&latest), &options).await {
                    Err(error) if error.is_not_found() => Err(self.note_absent(identity)),
                    result => Ok(result.map(drop)?),
                }
            }
        }
    }

    /// The object as the API server has it now.
    async fn latest(&self, kind: &Kind, identity: &Identity) -> Result<Value, ProcessError> {
        // A virtual node of a namespaced kind may be named by a cluster-scoped object.
        if kind.namespaced && identity.namespace.is_empty() {
            return Err(self.note_absent(identity));
        }
        let key = Key::new(identity.namespace.clone(), identity.name.clone());
        match self.client.get(kind, &key).await {
            Ok(object) if meta::uid(&object) == identity.uid => Ok(object),
            Ok(_) => Err(self.note_absent(identity)),
            Err(error) if error.is_not_found() => Err(self.note_absent(identity)),
            Err(error) => Err(error.into()),
        }
    }

    fn note_absent(&self, identity: &Identity) -> ProcessError {
        self.garbage.absent(identity);
        ProcessError::Absent
    }

    /// The state of an owner of an object.
    async fn owner_state(&self, owner: &Owner, of: &Identity) -> Result<OwnerState, ProcessError> {
        let without = Identity::of_owner(owner, Str::default());
        let within = Identity::of_owner(owner, of.namespace.clone());
        {
            let graph = self.garbage.graph.lock();
            if graph.is_absent(&without) || graph.is_absent(&within) {
                return Ok(OwnerState::Absent);
            }
        }
        let kind = self.garbage.kind(&owner.api_version, &owner.kind)?;
        if kind.namespaced && of.namespace.is_empty() {
            return Err(ProcessError::Hopeless);
        }
        let meant = if kind.namespaced { within } else { without };
        let key = Key::new(meant.namespace.clone(), meant.name.clone());
        match self.client.get(&kind, &key).await {
            Ok(object) if meta::uid(&object) == owner.uid => {
                let waits = meta::is_deleting(&object) && meta::finalizers(&object).any(|f| f == FOREGROUND);
                Ok(if waits { OwnerState::Waiting } else { OwnerState::Solid })
            }
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => {
                self.garbage.graph.lock().note_absent(meant);
                Ok(OwnerState::Absent)
            }
        }
    }

    /// Removes the foreground finalizer once no dependent blocks the deletion.
    async fn wait_for_dependents(
        &self,
        kind: &Kind,
        identity: &Identity,
        latest: &Value,
    ) -> Result<(), ProcessError> {
        let blocking = self.garbage.graph.lock().blocking(&identity.uid);
        if blocking.is_empty() {
            return self.remove_finalizer(kind, latest, FOREGROUND).await;
        }
        let idle = blocking.into_iter().filter(|(_, waits)| !waits);
        self.garbage.queue_work(idle.map(|(uid, _)| Work::Delete(uid)).collect());
        Ok(())
    }

    /// Removes an owner from all its dependents, then its orphan finalizer.
    async fn orphan_dependents(&self, owner: &Identity) -> Result<(), ProcessError> {
        let kind = self.garbage.kind(&owner.api_version, &owner.kind)?;
        let dependents = self.garbage.graph.lock().dependents(&owner.uid);
        let uids = [owner.uid.clone()];
        stream::iter(dependents.iter().map(Ok))
            .try_for_each_concurrent(WORKERS, |dependent| self.let_go(dependent, &uids))
            .await?;
        let latest = self.latest(&kind, owner).await?;
        self.remove_finalizer(&kind, &latest, ORPHAN).await
    }

    async fn let_go(&self, dependent: &Identity, owners: &[Str]) -> Result<(), ProcessError> {
        let kind = self.garbage.kind(&dependent.api_version, &dependent.kind)?;
        match self.latest(&kind, dependent).await {
            Ok(latest) => self.drop_owners(&kind, &latest, owners).await,
            Err(ProcessError::Absent) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn drop_owners(&self, kind: &Kind, latest: &Value, uids: &[Str]) -> Result<(), ProcessError> {
        let references = latest.items_at(&["metadata", "ownerReferences"]);
        let is_dropped = |r: &&Value| uids.iter().any(|uid| r.str_at(&["uid"]) == Some(uid));
        let kept: Vec<_> = references.iter().filter(|r| !is_dropped(r)).cloned().collect();
        if kept.len() < references.len() {
            self.patch(kind, latest, "ownerReferences", kept).await?;
        }
        Ok(())
    }

    /// The object with owner references that no longer block.
    async fn unblock(&self, kind: &Kind, latest: &Value) -> Result<Value, ProcessError> {
        let mut references = latest.items_at(&["metadata", "ownerReferences"]).to_vec();
        for reference in &mut references {
            if reference.bool_at(&["blockOwnerDeletion"]) == Some(true) {
                reference.set(&["blockOwnerDeletion"], false);
            }
        }
        self.patch(kind, latest, "ownerReferences", references).await
    }

    async fn remove_finalizer(
        &self,
        kind: &Kind,
        latest: &Value,
        finalizer: &str,
    ) -> Result<(), ProcessError> {
        let kept: Vec<Value> =
            meta::finalizers(latest).filter(|f| *f != finalizer).map(Value::from).collect();
        if kept.len() == meta::finalizers(latest).count() {
            return Ok(());
        }
        match self.patch(kind, latest, "finalizers", kept).await {
            Err(ProcessError::Request(error)) if error.is_not_found() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Replaces a list in the metadata of an object, provided it still has the version it was read in.
    async fn patch(
        &self,
        kind: &Kind,
        latest: &Value,
        field: &'static str,
        list: Vec<Value>,
    ) -> Result<Value, ProcessError> {
        let mut patch = value!({"metadata": {
            "uid": (meta::uid(latest)), "resourceVersion": (meta::resource_version(latest)),
        }});
        patch.set(&["metadata", field], list);
        Ok(self.client.patch(kind, &Key::of(latest), &Patch::Merge(patch), "").await?)
    }
}
