//! The kinds that quotas limit: discovered, watched, and checked for changes that free quota.
//!
//! A kind is watched from when the first quota limits it. Without quotas there is no discovery and no watch.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corten_api::{Str, Value};
use corten_base::{Backoff, Clock};
use corten_client::{Cache, Caches, Change, Client, Discovery, Key, Kind, Object, Served, kinds};
use corten_quota::{DeviceClasses, Item, Measure, Neighbours, is_counted, resource_list};
use corten_reconcile::Queue;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::{Charge, QuotaView, SETTLE};

const RETRY: Backoff = Backoff { first: Duration::from_millis(800), longest: Duration::from_secs(30) };
/// The time to wait after a change of definitions, which come in groups.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);

pub(super) struct Counted {
    caches: Caches,
    clock: Clock,
    queue: OnceLock<Arc<Queue>>,
    /// `None` until discovery was requested.
    discovery: RwLock<Option<Arc<Discovery>>>,
    /// Notified when discovery is requested, or may be outdated.
    asked: Notify,
    followed: Mutex<BTreeSet<Kind>>,
    /// Recent charges of quotas.
    charges: Mutex<HashMap<Key, Vec<Charge>>>,
}

impl Counted {
    pub(super) fn new(caches: Caches, clock: Clock) -> Counted {
        Counted {
            caches,
            clock,
            queue: OnceLock::new(),
            discovery: RwLock::default(),
            asked: Notify::new(),
            followed: Mutex::default(),
            charges: Mutex::default(),
        }
    }

    /// Sets the queue to which quotas are added for a recount.
    pub(super) fn wake(&self, queue: Arc<Queue>) {
        // Set only once.
        let _ = self.queue.set(queue);
    }

    /// Starts to record charges of quotas, and to watch definitions of kinds.
    pub(super) fn listen(self: &Arc<Counted>) {
        let this = Arc::downgrade(self);
        self.caches.of(&kinds::RESOURCE_QUOTAS).subscribe(move |change| {
            if let Some(this) = this.upgrade() {
                this.note_charge(change);
            }
        });
        for kind in [&kinds::CUSTOM_RESOURCE_DEFINITIONS, &kinds::API_SERVICES] {
            let this = Arc::downgrade(self);
            self.caches.of(kind).subscribe(move |_| {
                let Some(this) = this.upgrade() else { return };
                if this.discovery.read().is_some() {
                    this.asked.notify_one();
                }
            });
        }
    }

    /// Repeats API discovery whenever it is requested or may be outdated, for ever.
    pub(super) fn follow_kinds(
        self: &Arc<Counted>,
        client: Client,
    ) -> impl Future<Output = ()> + Send + use<> {
        let this = self.clone();
        async move {
            let mut failures = 0;
            loop {
                this.asked.notified().await;
                if this.discovery.read().is_some() {
                    this.clock.sleep(DISCOVERY_DELAY).await;
                }
                match client.discover().await {
                    Ok(discovery) => {
                        failures = 0;
                        *this.discovery.write() = Some(Arc::new(discovery));
                        this.count_all();
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(err = %error, "API discovery failed; retrying");
                        this.clock.sleep(RETRY.delay(failures)).await;
                        this.asked.notify_one();
                    }
                }
            }
        }
    }

    fn count_all(&self) {
        if let Some(queue) = self.queue.get() {
            self.caches
                .of(&kinds::RESOURCE_QUOTAS)
                .list("")
                .iter()
                .for_each(|quota| queue.add(quota.key.clone()));
        }
    }

    /// All usage of a quota that is first observed may have been charged just then.
    fn note_charge(&self, change: &Change) {
        let (key, at) = (&change.object().key, self.clock.now());
        let mut charges = self.charges.lock();
        let Some(new) = &change.new else {
            charges.remove(key);
            return;
        };
        let used = |quota: &Arc<Object>| resource_list::read(quota.tree().at(&["status", "used"]));
        let before = change.old.as_ref().map(used).unwrap_or_default();
        let known = charges.entry(key.clone()).or_default();
        known.retain(|charge| !charge.left(at).is_zero());
        known.push(Charge { at, amounts: resource_list::increase(&used(new), &before) });
    }

    pub(super) fn charges(&self, key: &Key) -> Vec<Charge> {
        self.charges.lock().get(key).cloned().unwrap_or_default()
    }

    /// The measures and caches of limited resources; `None` until discovery has succeeded.
    pub(super) fn kinds_of(self: &Arc<Counted>, limited: &[Str]) -> Option<Vec<(Measure, Arc<Cache>)>> {
        let Some(discovery) = self.discovery.read().clone() else {
            self.asked.notify_one();
            return None;
        };
        let classes = self.device_classes(&discovery, limited);
        let mut counted = Vec::new();
        for kind in discovery.preferred().filter(|served| is_quotable(served)).map(|served| &served.kind) {
            let measure = Measure::of(&kind.group, &kind.plural, || classes.clone());
            if limited.iter().any(|name| measure.knows(name)) {
                counted.push((measure, self.follow(kind)));
            }
        }
        Some(counted)
    }

    /// The device classes, if a limit may refer to them.
    fn device_classes(&self, discovery: &Discovery, limited: &[Str]) -> DeviceClasses {
        let is_device = |name: &Str| name.starts_with("requests.") && name.contains('/');
        let mut all = discovery.preferred().map(|served| &served.kind);
        let kind = all.find(|kind| kind.group == "resource.k8s.io" && kind.plural == "deviceclasses");
        match kind.filter(|_| limited.iter().any(is_device)) {
            Some(kind) => {
                let classes: Vec<Value> = self.caches.of(kind).list("").iter().map(|c| c.tree()).collect();
                DeviceClasses::of(classes.iter())
            }
            None => DeviceClasses::default(),
        }
    }

    /// The cache of a kind, whose changes are checked from now on.
    fn follow(self: &Arc<Counted>, kind: &Kind) -> Arc<Cache> {
        let cache = self.caches.of(kind);
        if self.followed.lock().insert(kind.clone()) {
            let this = Arc::downgrade(self);
            let measure = Measure::of(&kind.group, &kind.plural, DeviceClasses::default);
            cache.subscribe(move |change| {
                if let Some(this) = this.upgrade() {
                    this.check_change(&measure, change);
                }
            });
        }
        cache
    }

    /// Queues the quotas for which a change frees something.
    fn check_change(&self, measure: &Measure, change: &Change) {
        let (Some(old), Some(queue)) = (&change.old, self.queue.get()) else { return };
        let quotas = self.caches.of(&kinds::RESOURCE_QUOTAS).list(&old.key.namespace);
        if quotas.is_empty() {
            return;
        }
        let now = self.clock.now();
        let is_freed = match &change.new {
            None => true,
            Some(new) => {
                !matches!(measure, Measure::Count(_)) && frees(measure, &old.tree(), &new.tree(), now)
            }
        };
        if is_freed {
            // The limits that devices count against depend on their classes.
            let is_devices = matches!(measure, Measure::ResourceClaims(_));
            let limits = |quota: &QuotaView| is_devices || quota.limited.iter().any(|n| measure.knows(n));
            let concerned = quotas.iter().filter(|quota| limits(&quota.view::<QuotaView>()));
            concerned.for_each(|quota| queue.add_after(quota.key.clone(), SETTLE));
        }
    }
}

/// True if an object uses different resources than before, or counts against other quotas.
pub(super) fn frees(measure: &Measure, old: &Value, new: &Value, now: Timestamp) -> bool {
    let item = |object| measure.item(object, &NoNeighbours, now);
    let (Item { usage: before, facts: were, .. }, Item { usage, facts, .. }) = (item(old), item(new));
    were != facts || !super::is_equal(&before, &usage)
}

/// True if a kind can be counted: it can be created, deleted, listed and watched.
fn is_quotable(served: &Served) -> bool {
    let kind = &served.kind;
    kind.namespaced
        && is_counted(&kind.group, &kind.plural)
        && served.has_verbs(&["create", "delete", "list", "watch"])
}

/// A namespace without other objects: they do not matter for a change.
struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn pod(&self, _: &str) -> Option<Value> {
        None
    }

    fn resource_claims(&self) -> Vec<Value> {
        Vec::new()
    }
}
