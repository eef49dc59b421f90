//! ResourceQuota controller: computes the usage of quotas.
//!
//! Owns the status of quotas: copies their limits, and counts usage by the same rules by which the API server charges
//! writes. Watches quotas, and of all other kinds those that some quota limits. Recounts when a quota changes, when an
//! object is deleted or uses less, and every few minutes.
//!
//! The API server charges a write before it commits it. A recent charge is therefore not released yet: its object may
//! not be in the cache. Creations are ignored, as they are charged.

mod counted;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Str, Value};
use corten_client::{Caches, Key, Object, View, kinds};
use corten_quota::resource_list::{self, ResourceList};
use corten_quota::{Measure, Neighbours, Scope};
use corten_reconcile::{Action, Controller, Manager, Plan, Watch};
use jiff::Timestamp;

use counted::Counted;

const NAME: &str = "resourcequota-controller";
/// The longest time from a charge until its object is in the cache.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// The time for which changes are collected: counting a large namespace is expensive.
const SETTLE: Duration = Duration::from_millis(200);

/// Options of the quota controller.
#[derive(Debug, Clone)]
pub struct QuotaOptions {
    /// The interval of full recounts.
    pub sync_period: Duration,
    /// The number of quotas that are reconciled concurrently.
    pub concurrent_syncs: usize,
}

impl Default for QuotaOptions {
    fn default() -> QuotaOptions {
        QuotaOptions { sync_period: Duration::from_secs(300), concurrent_syncs: 5 }
    }
}

pub(crate) fn start(manager: &Manager, options: QuotaOptions) {
    if !manager.is_selected(NAME) {
        return;
    }
    let counted = Arc::new(Counted::new(manager.caches().clone(), manager.clock().clone()));
    counted.listen();
    if let Some(queue) = manager.run(Quotas { options, counted: counted.clone() }) {
        counted.wake(queue);
    }
    manager.spawn(counted.follow_kinds(manager.client_for(NAME)));
}

/// The fields of a quota that are read with every change of a limited object.
#[derive(Debug)]
struct QuotaView {
    limited: Box<[Str]>,
}

impl View for QuotaView {
    fn of(quota: &Value) -> QuotaView {
        let list = resource_list::read(quota.at(&["spec", "hard"]));
        QuotaView { limited: list.into_keys().collect() }
    }
}

/// An increase of a quota's recorded usage.
#[derive(Debug, Clone)]
struct Charge {
    at: Timestamp,
    amounts: ResourceList,
}

impl Charge {
    /// The remaining time in which the charged object may not be in the cache.
    fn left(&self, now: Timestamp) -> Duration {
        UNDER_WAY.saturating_sub(Duration::try_from(now.duration_since(self.at)).unwrap_or_default())
    }
}

struct Quotas {
    options: QuotaOptions,
    counted: Arc<Counted>,
}

/// The state of one quota.
#[derive(Debug, Default)]
struct World {
    /// `None` if it does not exist, or discovery is not done.
    quota: Option<Value>,
    /// All objects of the kinds it limits.
    objects: Vec<(Measure, Vec<Arc<Object>>)>,
    /// Recent charges, and when they were observed.
    charges: Vec<Charge>,
    /// True if some of the caches have not synced.
    is_behind: bool,
}

impl Controller for Quotas {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch {
            kind: &kinds::RESOURCE_QUOTAS,
            keys: |_, change, keys| {
                // The status is written by this controller and by the API server's charges.
                let limits = |quota: &Arc<Object>| quota.tree().get("spec").cloned();
                let is_same =
                    matches!((&change.old, &change.new), (Some(a), Some(b)) if limits(a) == limits(b));
                if !is_same {
                    keys.push(change.object().key.clone());
                }
            },
        }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let Some(object) = caches.of(&kinds::RESOURCE_QUOTAS).get(key) else { return World::default() };
        let limited = &object.view::<QuotaView>().limited;
        let Some(counted) = self.counted.kinds_of(limited) else { return World::default() };
        let is_behind = counted.iter().any(|(_, cache)| !cache.is_synced());
        let objects = counted.into_iter().map(|(measure, cache)| (measure, cache.list(&key.namespace)));
        World {
            quota: Some(object.tree()),
            objects: objects.collect(),
            charges: self.counted.charges(key),
            is_behind,
        }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        world.plan(self.options.sync_period, now)
    }

    fn workers(&self) -> usize {
        self.options.concurrent_syncs
    }
}

impl World {
    fn plan(&self, sync_period: Duration, now: Timestamp) -> Plan {
        let Some(quota) = &self.quota else { return Plan::done() };
        if self.is_behind {
            return Plan::done().retry();
        }
        let left = self.charges.iter().map(|charge| charge.left(now)).max().unwrap_or_default();
        let again = Plan::done().requeue_after(if left.is_zero() { sync_period } else { left });
        let list = |path: [&str; 2]| resource_list::read(quota.at(&path));
        let known = list(["status", "used"]);
        let mut used = usage(quota, &self.objects, now);
        keep_charges(&mut used, &known, &self.charges, now);
        if is_equal(&list(["spec", "hard"]), &list(["status", "hard"])) && is_equal(&used, &known) {
            return again;
        }
        let mut object = quota.clone();
        let hard = quota.at(&["spec", "hard"]).cloned().unwrap_or_else(Value::object);
        object.set(&["status", "hard"], hard);
        object.set(&["status", "used"], resource_list::write(&used));
        again.then(Action::Update { kind: &kinds::RESOURCE_QUOTAS, object, subresource: "status" })
    }
}

fn is_equal(a: &ResourceList, b: &ResourceList) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, amount)| b.get(name).is_some_and(|b| b.quantity == amount.quantity))
}

/// Releases usage only beyond the recent charges.
fn keep_charges(used: &mut ResourceList, known: &ResourceList, charges: &[Charge], now: Timestamp) {
    let mut under_way = ResourceList::new();
    for charge in charges.iter().filter(|charge| !charge.left(now).is_zero()) {
        resource_list::add(&mut under_way, &charge.amounts);
    }
    for (name, amount) in used.iter_mut() {
        let Some(known) = known.get(name).filter(|known| known.quantity > amount.quantity) else { continue };
        let mut most = amount.quantity;
        if let Some(more) = under_way.get(name) {
            most.add(more.quantity);
        }
        *amount = if most < known.quantity { most.into() } else { known.clone() };
    }
}

/// The usage of a quota's resources. Resources that cannot be counted keep their recorded usage.
fn usage(quota: &Value, objects: &[(Measure, Vec<Arc<Object>>)], now: Timestamp) -> ResourceList {
    let hard = resource_list::read(quota.at(&["spec", "hard"]));
    let scopes = Scope::all(quota);
    let neighbours = Namespace::of(objects);
    let mut used = resource_list::read(quota.at(&["status", "used"]));
    used.retain(|name, _| hard.contains_key(name));
    for name in hard.keys().filter(|name| objects.iter().any(|(measure, _)| measure.knows(name))) {
        used.insert(name.clone(), Quantity::new(0, Format::DecimalSi).into());
    }
    for (measure, objects) in objects {
        for object in objects {
            let mut item = measure.item(&object.tree(), &neighbours, now);
            if scopes.iter().all(|scope| scope.holds(&item.facts)) {
                item.usage.retain(|name, _| hard.contains_key(name) && measure.knows(name));
                resource_list::add(&mut used, &item.usage);
            }
        }
    }
    used
}

/// The objects of a quota's namespace.
struct Namespace<'a> {
    pods: HashMap<&'a str, &'a Arc<Object>>,
    claims: &'a [Arc<Object>],
}

impl<'a> Namespace<'a> {
    fn of(objects: &'a [(Measure, Vec<Arc<Object>>)]) -> Namespace<'a> {
        let (mut pods, mut claims) = (HashMap::new(), &[][..]);
        for (measure, objects) in objects {
            match measure {
                Measure::Pods => pods = objects.iter().map(|pod| (pod.key.name.as_str(), pod)).collect(),
                Measure::ResourceClaims(_) => claims = objects,
                _ => {}
            }
        }
        Namespace { pods, claims }
    }
}

impl Neighbours for Namespace<'_> {
    fn pod(&self, name: &str) -> Option<Value> {
        self.pods.get(name).map(|pod| pod.tree())
    }

    fn resource_claims(&self) -> Vec<Value> {
        self.claims.iter().map(|claim| claim.tree()).collect()
    }
}
