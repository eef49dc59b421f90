//! Charging: waiting demands of one namespace are charged together, by one write of its quotas.
//!
//! The first demand of a namespace starts a task that charges all waiting demands, until there are none. The task belongs to
//! no request, so that a client that disconnects does not affect other demands. Quotas are written by compare-and-set; after
//! a conflict, all waiting demands are decided again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Status, Value, managed, resources, time};
use corten_quota::resource_list;
use corten_store::{Error as StoreError, Expect, Op, Txn};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::QUOTAS;
use super::check::{Quota, check};
use super::usage::Demand;
use crate::admission::{Attributes, lookup};
use crate::call::Backend;
use crate::object::Object;
use crate::verbs::{self, write};

/// The retries of a write of quotas after conflicts.
const RETRIES: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);
/// The manager of the charged fields.
const MANAGER: &str = "kube-apiserver";

/// The reason of a refused demand.
#[derive(Debug, Clone)]
enum Refusal {
    /// A quota would be exceeded.
    Quota(String),
    /// The quotas could not be written.
    Store(Status),
}

struct Waiting {
    demand: Demand,
    answer: oneshot::Sender<Result<(), Refusal>>,
}

/// The waiting demands, by namespace. A namespace is listed while a task charges its demands.
#[derive(Default)]
pub(in crate::admission) struct Queues(Mutex<HashMap<String, Vec<Waiting>>>);

/// Waits until a demand is charged, or refused.
pub(super) async fn charge(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    demand: Demand,
) -> Result<(), Status> {
    let (answer, settled) = oneshot::channel();
    enqueue(&attributes.call.backend, attributes.namespace(), Waiting { demand, answer });
    match attributes.call.backend.clock.timeout(PATIENCE, settled).await {
        Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(Refusal::Quota(why)))) => Err(attributes.forbidden(object, why)),
        Some(Ok(Err(Refusal::Store(status)))) => Err(status),
        Some(Err(_)) => Err(Status::internal("resource quota evaluation was given up")),
        None => Err(Status::internal("resource quota evaluation timed out")),
    }
}

fn enqueue(backend: &Arc<Backend>, namespace: &str, waiting: Waiting) {
    let mut queues = backend.admission.quota.0.lock();
    match queues.entry(namespace.to_owned()) {
        Entry::Occupied(mut queue) => queue.get_mut().push(waiting),
        Entry::Vacant(queue) => {
            queue.insert(vec![waiting]);
            let settler = Settler { backend: backend.clone(), namespace: namespace.to_owned(), listed: true };
            tokio::spawn(settler.run());
        }
    }
}

struct Settler {
    backend: Arc<Backend>,
    namespace: String,
    /// True while the namespace's entry belongs to this task: later it may be another task's.
    listed: bool,
}

impl Drop for Settler {
    /// Removes the namespace's entry, also after a panic, so that the next demand starts a new task.
    fn drop(&mut self) {
        if self.listed {
            self.backend.admission.quota.0.lock().remove(&self.namespace);
        }
    }
}

impl Settler {
    async fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            let demands: Vec<&Demand> = batch.iter().map(|waiting| &waiting.demand).collect();
            let outcomes = charge_all(&self.backend, &self.namespace, &demands).await;
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                // Fails if the request has been cancelled.
                let _ = waiting.answer.send(outcome);
            }
        }
    }

    /// All waiting demands; the namespace's entry is removed if there are none.
    fn next_batch(&mut self) -> Option<Vec<Waiting>> {
        let mut queues = self.backend.admission.quota.0.lock();
        let queue = queues.get_mut(&self.namespace)?;
        if queue.is_empty() {
            queues.remove(&self.namespace);
            self.listed = false;
            return None;
        }
        Some(std::mem::take(queue))
    }
}

/// Decides demands in their order and writes the charges.
async fn charge_all(backend: &Backend, namespace: &str, demands: &[&Demand]) -> Vec<Result<(), Refusal>> {
    let mut failure = Status::stale("", "resourcequotas", "");
    for _ in 0..RETRIES {
        let stored = lookup::list(backend, QUOTAS, namespace);
        let mut quotas: Vec<Quota> = stored.iter().map(|quota| Quota::read(quota.parsed())).collect();
        let decide = |demand: &&Demand| check(&mut quotas, demand).map_err(Refusal::Quota);
        let outcomes: Vec<_> = demands.iter().map(decide).collect();
        let ops: Vec<Op> = stored
            .iter()
            .zip(&quotas)
            .filter(|(_, quota)| quota.charged)
            .filter_map(|(object, quota)| update(backend, object, quota))
            .collect();
        if ops.is_empty() {
            return outcomes;
        }
        match backend.store.commit(Txn { ops }).await {
            Ok(_) => return outcomes,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => {
                failure = write::store_failure(error);
                break;
            }
        }
    }
    demands.iter().map(|_| Err(Refusal::Store(failure.clone()))).collect()
}

/// The write of a quota's charge.
fn update(backend: &Backend, object: &Object, quota: &Quota) -> Option<Op> {
    let cache = backend.catalog.cache(QUOTAS.0, QUOTAS.1)?;
    let old = object.parsed();
    let mut new = old.clone();
    new.set(&["status", "used"], resource_list::write(&quota.used));
    own(old, &mut new, backend.clock.now(), (cache.form.rules.reset_fields)("status"));
    Some(Op::Put {
        key: object.key.clone(),
        expect: Expect::ModRevision(object.revision),
        value: verbs::new_value(&cache, new),
        lease: None,
    })
}

/// Records this server as the manager of the charged fields.
fn own(old: &Value, new: &mut Value, now: Timestamp, resets: &'static [corten_registry::Path]) {
    let Some(schema) = resources::schema_of("", "v1", "ResourceQuota") else { return };
    let filter = managed::Filter::Exclude(managed::Set::of_fields(resets));
    let context = managed::Context {
        schema: &schema,
        api_version: "v1",
        manager: MANAGER,
        subresource: "status",
        now: &time::format(now),
        filter: Some(&filter),
        versions: None,
    };
    managed::update(&context, Some(old), new);
    managed::keep_times(old, new);
}
