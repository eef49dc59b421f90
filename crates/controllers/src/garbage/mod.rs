//! Garbage collector: deletes what belongs to nobody any more, and holds owners until their dependents are gone or
//! let go, whichever was asked for.
//!
//! Watches every kind there is, kept as a graph of owners. Takes `foregroundDeletion` and `orphan` off objects'
//! finalizers and owner references that lead nowhere off objects. Never deletes by what it remembers alone: an
//! object goes only if the server says that none of its owners is there.

mod graph;
mod monitor;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use corten_api::{Str, Value, meta, value};
use corten_client::{Client, DeleteOptions, Discovery, Error, Key, Kind, Owner, Patch, kinds};
use corten_reconcile::{Event, Manager, Queue, Recorder};
use futures_util::{TryStreamExt, stream};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use graph::{Facts, Graph, Identity, Seen, Work};
use verdict::{FOREGROUND, ORPHAN, Standing, Verdict};

const NAME: &str = "garbage-collector-controller";
const ACCOUNT: &str = "generic-garbage-collector";
const WORKERS: usize = 20;

/// What followers and workers share.
struct Garbage {
    graph: Mutex<Graph>,
    discovery: RwLock<Arc<Discovery>>,
    /// Told when what is known of the server's kinds may no longer be true.
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
        self.take_up(work);
    }

    fn gone(&self, uid: &str) {
        let work = self.graph.lock().gone(uid);
        self.take_up(work);
    }

    fn absent(&self, identity: &Identity) {
        let work = self.graph.lock().absent(identity);
        self.take_up(work);
    }

    /// The queue knows keys: a task, and the uid it is about.
    fn take_up(&self, work: Vec<Work>) {
        for work in work {
            match work {
                Work::Delete(uid) => self.queue.add(Key::new("", uid)),
                Work::Orphan(uid) => self.queue.add(Key::new(ORPHAN, uid)),
                Work::Report(object, owner) => self.recorder.record(strange_owner(&object, &owner)),
            }
        }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Kind, Trouble> {
        let known = self.discovery.read().kind(api_version, kind).cloned();
        known.ok_or_else(|| {
            self.stale.notify_one();
            Trouble::UnknownKind
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

/// Why an object could not be dealt with.
#[derive(Debug)]
enum Trouble {
    /// There is nothing to deal with; the graph has been told.
    Absent,
    /// A reference that can never lead anywhere.
    Hopeless,
    /// Of a kind that the server does not serve, or not yet.
    UnknownKind,
    Request(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Request(error)
    }
}

struct Worker {
    garbage: Arc<Garbage>,
    client: Client,
}

impl Worker {
    async fn run(self, mut ready: watch::Receiver<bool>) {
        // Before everything was seen, much looks as if it had no owner.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            let key = self.garbage.queue.next().await;
            let again = self.attend(&key).await;
            self.garbage.queue.done(&key, again, None);
        }
    }

    /// Deals with one object; whether to try again later.
    async fn attend(&self, key: &Key) -> bool {
        let Some(seen) = self.garbage.graph.lock().look(&key.name) else { return false };
        let done = if key.namespace == ORPHAN {
            self.orphan_dependents(&seen.facts.identity).await
        } else {
            self.consider(&seen).await
        };
        match done {
            // The server has it and we have not seen it: it may yet turn out to be gone.
            Ok(()) => seen.is_virtual,
            Err(Trouble::Absent | Trouble::Hopeless) => false,
            Err(Trouble::UnknownKind) => true,
            Err(Trouble::Request(error)) => {
                if !error.is_conflict() && !error.is_not_found() {
                    let Identity { kind, namespace, name, .. } = &seen.facts.identity;
                    tracing::warn!(%kind, %namespace, %name, %error, "garbage could not be collected");
                }
                true
            }
        }
    }

    /// Deletes an object if none of its owners is there, or lets it go if it waits for nobody any more.
    async fn consider(&self, seen: &Seen) -> Result<(), Trouble> {
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
            let standing = self.standing(&owner, identity).await?;
            owners.push((owner.uid, standing));
        }
        match verdict::decide(&latest, &owners, seen.has_dependents, seen.dependent_waits) {
            Verdict::Keep => Ok(()),
            Verdict::DropOwners(uids) => self.drop_owners(&kind, &latest, &uids).await,
            Verdict::Delete { policy, unblock } => {
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

    /// The object as the server has it now.
    async fn latest(&self, kind: &Kind, identity: &Identity) -> Result<Value, Trouble> {
        // A virtual node of a kind with namespaces may be named by something without one.
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

    fn note_absent(&self, identity: &Identity) -> Trouble {
        self.garbage.absent(identity);
        Trouble::Absent
    }

    /// What an owner of an object turns out to be.
    async fn standing(&self, owner: &Owner, of: &Identity) -> Result<Standing, Trouble> {
        let without = Identity::of_owner(owner, Str::default());
        let within = Identity::of_owner(owner, of.namespace.clone());
        {
            let graph = self.garbage.graph.lock();
            if graph.is_absent(&without) || graph.is_absent(&within) {
                return Ok(Standing::Absent);
            }
        }
        let kind = self.garbage.kind(&owner.api_version, &owner.kind)?;
        if kind.namespaced && of.namespace.is_empty() {
            return Err(Trouble::Hopeless);
        }
        let meant = if kind.namespaced { within } else { without };
        let key = Key::new(meant.namespace.clone(), meant.name.clone());
        match self.client.get(&kind, &key).await {
            Ok(object) if meta::uid(&object) == owner.uid => {
                let waits = meta::is_deleting(&object) && meta::finalizers(&object).any(|f| f == FOREGROUND);
                Ok(if waits { Standing::Waiting } else { Standing::Solid })
            }
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => {
                self.garbage.graph.lock().note_absent(meant);
                Ok(Standing::Absent)
            }
        }
    }

    /// Lets an object go once no dependent holds it up.
    async fn wait_for_dependents(
        &self,
        kind: &Kind,
        identity: &Identity,
        latest: &Value,
    ) -> Result<(), Trouble> {
        let blocking = self.garbage.graph.lock().blocking(&identity.uid);
        if blocking.is_empty() {
            return self.remove_finalizer(kind, latest, FOREGROUND).await;
        }
        let idle = blocking.into_iter().filter(|(_, waits)| !waits);
        self.garbage.take_up(idle.map(|(uid, _)| Work::Delete(uid)).collect());
        Ok(())
    }

    /// Takes an owner off everything that belongs to it, then lets it go.
    async fn orphan_dependents(&self, owner: &Identity) -> Result<(), Trouble> {
        let kind = self.garbage.kind(&owner.api_version, &owner.kind)?;
        let dependents = self.garbage.graph.lock().dependents(&owner.uid);
        let uids = [owner.uid.clone()];
        stream::iter(dependents.iter().map(Ok))
            .try_for_each_concurrent(WORKERS, |dependent| self.let_go(dependent, &uids))
            .await?;
        let latest = self.latest(&kind, owner).await?;
        self.remove_finalizer(&kind, &latest, ORPHAN).await
    }

    async fn let_go(&self, dependent: &Identity, owners: &[Str]) -> Result<(), Trouble> {
        let kind = self.garbage.kind(&dependent.api_version, &dependent.kind)?;
        match self.latest(&kind, dependent).await {
            Ok(latest) => self.drop_owners(&kind, &latest, owners).await,
            Err(Trouble::Absent) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn drop_owners(&self, kind: &Kind, latest: &Value, uids: &[Str]) -> Result<(), Trouble> {
        let references = latest.items_at(&["metadata", "ownerReferences"]);
        let is_dropped = |r: &&Value| uids.iter().any(|uid| r.str_at(&["uid"]) == Some(uid));
        let kept: Vec<_> = references.iter().filter(|r| !is_dropped(r)).cloned().collect();
        if kept.len() < references.len() {
            self.patch(kind, latest, "ownerReferences", kept).await?;
        }
        Ok(())
    }

    /// The object with references that hold nobody up.
    async fn unblock(&self, kind: &Kind, latest: &Value) -> Result<Value, Trouble> {
        let mut references = latest.items_at(&["metadata", "ownerReferences"]).to_vec();
        for reference in &mut references {
            if reference.bool_at(&["blockOwnerDeletion"]) == Some(true) {
                reference.set(&["blockOwnerDeletion"], false);
            }
        }
        self.patch(kind, latest, "ownerReferences", references).await
    }

    async fn remove_finalizer(&self, kind: &Kind, latest: &Value, finalizer: &str) -> Result<(), Trouble> {
        let kept: Vec<Value> =
            meta::finalizers(latest).filter(|f| *f != finalizer).map(Value::from).collect();
        if kept.len() == meta::finalizers(latest).count() {
            return Ok(());
        }
        match self.patch(kind, latest, "finalizers", kept).await {
            Err(Trouble::Request(error)) if error.is_not_found() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Replaces a list in the metadata of an object in the version it was read in.
    async fn patch(
        &self,
        kind: &Kind,
        latest: &Value,
        field: &'static str,
        list: Vec<Value>,
    ) -> Result<Value, Trouble> {
        let mut patch = value!({"metadata": {
            "uid": (meta::uid(latest)), "resourceVersion": (meta::resource_version(latest)),
        }});
        patch.set(&["metadata", field], list);
        Ok(self.client.patch(kind, &Key::of(latest), &Patch::Merge(patch), "").await?)
    }
}
