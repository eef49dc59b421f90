//! Charging: waiting demands of one namespace are charged together, by one write of each of its quotas.
//!
//! The first demand of a namespace starts a task that charges all waiting demands, until there are none. The task belongs to
//! no request, so that a client that disconnects does not affect other demands. Quotas are written by compare-and-set, each in
//! its own transaction, because a client cannot resume a watch between two quotas of one revision. After a conflict, the
//! demands are decided again with the quotas that were not written. As with upstream, a demand that is refused then stays
//! charged to the others, until the quota controller counts them again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Status, Value, managed, resources, time};
use corten_quota::resource_list;
use corten_store::{Error as StoreError, Expect, Op};
use futures_util::future::join_all;
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
    let mut outcomes: Vec<Result<(), Refusal>> = demands.iter().map(|_| Ok(())).collect();
    let mut written: Vec<Arc<str>> = Vec::new();
    for _ in 0..RETRIES {
        let mut stored = lookup::list(backend, QUOTAS, namespace);
        stored.retain(|quota| !written.contains(&quota.key));
        let mut quotas: Vec<Quota> = stored.iter().map(|quota| Quota::read(quota.parsed())).collect();
        for (demand, outcome) in demands.iter().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_ok()) {
            *outcome = check(&mut quotas, demand).map_err(Refusal::Quota);
        }
        let charged = stored.iter().zip(&quotas).filter(|(_, quota)| quota.charged);
        let writes = charged.filter_map(|(object, quota)| {
            let op = update(backend, object, quota)?;
            Some(async { (object.key.clone(), backend.store.commit(op.into()).await) })
        });
        let mut has_conflict = false;
        for (key, result) in join_all(writes).await {
            match result {
                Ok(_) => written.push(key),
                Err(StoreError::Conflict { .. }) => has_conflict = true,
                Err(error) => {
                    failure = write::store_failure(error);
                    return refused(&outcomes, &failure);
                }
            }
        }
        if !has_conflict {
            return outcomes;
        }
    }
    refused(&outcomes, &failure)
}

/// The outcomes after quotas could not be written.
fn refused(outcomes: &[Result<(), Refusal>], failure: &Status) -> Vec<Result<(), Refusal>> {
    let refuse =
        |outcome: &Result<(), Refusal>| outcome.clone().and_then(|()| Err(Refusal::Store(failure.clone())));
    outcomes.iter().map(refuse).collect()
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
