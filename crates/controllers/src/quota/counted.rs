//! The kinds that quotas limit: which there are, which are followed, and whose changes free something.
//!
//! A kind is followed from when the first quota limits it. As long as there are no quotas, nothing is asked and
//! nothing is followed.

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
/// Definitions change several times before they are served.
const SETTLING: Duration = Duration::from_secs(1);

pub(super) struct Counted {
    caches: Caches,
    clock: Clock,
    queue: OnceLock<Arc<Queue>>,
    /// `None` until somebody wanted to know.
    discovery: RwLock<Option<Arc<Discovery>>>,
    /// Told when somebody wants to know, or what is known may no longer be true.
    asked: Notify,
    followed: Mutex<BTreeSet<Kind>>,
    /// What quotas were charged of late.
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

    /// Begins to tell a queue which quotas are to be counted anew.
    pub(super) fn wake(&self, queue: Arc<Queue>) {
        // There is only one.
        let _ = self.queue.set(queue);
    }

    /// Begins to take note of what quotas are charged, and of what else there may be to count.
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

    /// Asks for the server's kinds whenever somebody wants to know them or they may have changed, for ever.
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
                    this.clock.sleep(SETTLING).await;
                }
                match client.discover().await {
                    Ok(discovery) => {
                        failures = 0;
                        *this.discovery.write() = Some(Arc::new(discovery));
                        this.count_all();
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "the server's kinds could not be found out");
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

    /// Everything a quota says when it is first seen may have been charged just then.
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

    /// How to count what is limited, and where; `None` until the server's kinds are known.
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

    /// What device classes stand for, if any limit could be about that.
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

    /// The cache of a kind, whose changes are looked at from now on.
    fn follow(self: &Arc<Counted>, kind: &Kind) -> Arc<Cache> {
        let cache = self.caches.of(kind);
        if self.followed.lock().insert(kind.clone()) {
            let this = Arc::downgrade(self);
            let measure = Measure::of(&kind.group, &kind.plural, DeviceClasses::default);
            cache.subscribe(move |change| {
                if let Some(this) = this.upgrade() {
                    this.look_at(&measure, change);
                }
            });
        }
        cache
    }

    /// Has the quotas counted anew for which a change frees something.
    fn look_at(&self, measure: &Measure, change: &Change) {
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
            // Which limits devices count against depends on their classes.
            let is_devices = matches!(measure, Measure::ResourceClaims(_));
            let limits = |quota: &QuotaView| is_devices || quota.limited.iter().any(|n| measure.knows(n));
            let concerned = quotas.iter().filter(|quota| limits(&quota.view::<QuotaView>()));
            concerned.for_each(|quota| queue.add_after(quota.key.clone(), SETTLE));
        }
    }
}

/// Whether an object takes something else than before, or counts against other quotas.
pub(super) fn frees(measure: &Measure, old: &Value, new: &Value, now: Timestamp) -> bool {
    let item = |object| measure.item(object, &Nobody, now);
    let (Item { usage: before, facts: were, .. }, Item { usage, facts, .. }) = (item(old), item(new));
    were != facts || !super::is_equal(&before, &usage)
}

/// Whether a kind can be counted: it comes and goes, and can be watched.
fn is_quotable(served: &Served) -> bool {
    let kind = &served.kind;
    kind.namespaced
        && is_counted(&kind.group, &kind.plural)
        && served.has_verbs(&["create", "delete", "list", "watch"])
}

/// Nothing else matters to whether an object changed.
struct Nobody;

impl Neighbours for Nobody {
    fn pod(&self, _: &str) -> Option<Value> {
        None
    }

    fn resource_claims(&self) -> Vec<Value> {
        Vec::new()
    }
}
