//! Watches every kind that can be deleted, listed and watched, and feeds the graph. Kinds change at run time: discovery
//! is repeated whenever CRDs or APIServices change, or an owner is of an unknown kind.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_base::{Backoff, Clock};
use corten_client::{Client, Discovery, Error, Kind, Owner, WatchEvent, kinds};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::Garbage;
use super::decision::{FOREGROUND, ORPHAN};
use super::graph::{Facts, Identity};

const RETRY: Backoff = Backoff { first: Duration::from_millis(800), longest: Duration::from_secs(30) };
/// The time to wait after a change of definitions, which come in groups.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);
/// The longest wait for the initial sync; after that, processing starts without the kinds that have not synced.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps one watch per kind, for ever.
pub(super) async fn follow_all(
    garbage: Arc<Garbage>,
    client: Client,
    clock: Clock,
    ready: watch::Sender<bool>,
) {
    let mut followers = Followers { tasks: JoinSet::new(), kinds: BTreeMap::new() };
    let mut failures = 0;
    loop {
        match client.discover().await {
            Ok(discovery) => {
                failures = 0;
                let synced = followers.adjust(&discovery, &garbage, &client, &clock);
                *garbage.discovery.write() = Arc::new(discovery);
                let all = async {
                    for mut synced in synced {
                        let _ = synced.wait_for(|synced| *synced).await;
                    }
                };
                tokio::select! {
                    () = all => {}
                    () = clock.sleep(SYNC_TIMEOUT) => {
                        tracing::warn!("caches of some resources have not synced; continuing without them");
                    }
                }
                ready.send_replace(true);
                garbage.stale.notified().await;
                clock.sleep(DISCOVERY_DELAY).await;
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(err = %error, "API discovery failed; retrying");
                clock.sleep(RETRY.delay(failures)).await;
            }
        }
    }
}

struct Followers {
    tasks: JoinSet<()>,
    kinds: BTreeMap<Kind, AbortHandle>,
}

impl Followers {
    /// Starts watches of new kinds and stops those of removed ones. Returns the sync states of the new ones.
    fn adjust(
        &mut self,
        discovery: &Discovery,
        garbage: &Arc<Garbage>,
        client: &Client,
        clock: &Clock,
    ) -> Vec<watch::Receiver<bool>> {
        let wanted: Vec<&Kind> = discovery
            .preferred()
            .filter(|s| s.has_verbs(&["delete", "list", "watch"]))
            .map(|s| &s.kind)
            .collect();
        // While the discovery of a group fails, its kinds are not removed.
        if discovery.failed.is_empty() {
            self.kinds.retain(|kind, follower| {
                let stays = wanted.contains(&kind);
                if !stays {
                    follower.abort();
                }
                stays
            });
        }
        let mut synced = Vec::new();
        for kind in wanted.into_iter().filter(|kind| !is_ignored(kind)) {
            if self.kinds.contains_key(kind) {
                continue;
            }
            let (sender, receiver) = watch::channel(false);
            let follower = Follower {
                kind: kind.clone(),
                garbage: garbage.clone(),
                version: String::new(),
                seen: None,
                synced: sender,
            };
            let task = self.tasks.spawn(follower.run(client.clone(), clock.clone()));
            self.kinds.insert(kind.clone(), task);
            synced.push(receiver);
        }
        synced
    }
}

/// Events have no owners, and are many.
fn is_ignored(kind: &Kind) -> bool {
    kind.plural == kinds::EVENTS.plural && matches!(kind.group.as_str(), "" | "events.k8s.io")
}

struct Follower {
    kind: Kind,
    garbage: Arc<Garbage>,
    /// The version to resume from; empty to list again.
    version: String,
    /// During the initial list: the uids received so far.
    seen: Option<HashSet<Str>>,
    synced: watch::Sender<bool>,
}

impl Follower {
    async fn run(mut self, client: Client, clock: Clock) {
        let mut failures = 0;
        loop {
            match self.follow(&client).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    if error.is_expired() {
                        self.version.clear();
                    }
                    failures += 1;
                    tracing::debug!(resource = %self.kind.plural, err = %error, "watch closed; retrying");
                    clock.sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    async fn follow(&mut self, client: &Client) -> Result<(), Error> {
        if self.version.is_empty() {
            self.seen = Some(HashSet::new());
        }
        let mut events = client.watch(&self.kind, self.version.clone()).await?;
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Present(seen) => {
                    let object = seen.tree().map_err(Error::transport)?;
                    match &mut self.seen {
                        Some(seen) => drop(seen.insert(meta::uid(&object).into())),
                        None => self.version = meta::resource_version(&object).to_owned(),
                    }
                    self.garbage.present(facts(&self.kind, &object));
                }
                WatchEvent::Deleted { last, revision } => {
                    self.version = revision.to_string();
                    self.garbage.gone(meta::uid(&*last.tree().map_err(Error::transport)?));
                }
                WatchEvent::Bookmark { version, ends_initial } => {
                    self.version = version;
                    if ends_initial {
                        self.forget_unseen();
                    }
                }
            }
        }
        Ok(())
    }

    fn forget_unseen(&mut self) {
        let Some(seen) = self.seen.take() else { return };
        let known = self.garbage.graph.lock().of_kind(&self.kind.api_version(), &self.kind.kind);
        for uid in known.iter().filter(|uid| !seen.contains(*uid)) {
            self.garbage.gone(uid);
        }
        self.synced.send_replace(true);
    }
}

/// The facts that the graph needs of an object.
fn facts(kind: &Kind, object: &Value) -> Facts {
    let deleting = meta::is_deleting(object);
    let waits = |finalizer: &str| deleting && meta::finalizers(object).any(|f| f == finalizer);
    Facts {
        identity: Identity {
            api_version: kind.api_version().into(),
            kind: kind.kind.clone(),
            namespace: meta::namespace(object).into(),
            name: meta::name(object).into(),
            uid: meta::uid(object).into(),
        },
        owners: Owner::all(object),
        deleting,
        waits_for_deletion: waits(FOREGROUND),
        waits_for_orphaning: waits(ORPHAN),
    }
}
