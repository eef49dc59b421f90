//! Follows the APIServices: keeps the table of aggregated servers, and for each of them the tasks that check it and fetch
//! its documents.
//!
//! Without an APIService that names a Service there are no tasks, and only changes of APIServices are observed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corten_api::Value;
use corten_base::Backoff;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::availability::{self, Outcome};
use super::target::{Service, Target};
use super::{Entry, KIND, Table, discovery, openapi};
use crate::Server;
use crate::bootstrap::Local;
use crate::cache::Cache;
use crate::call::Backend;
use crate::object::Object;

/// The interval between checks of a server that works.
const RESYNC: Duration = Duration::from_secs(30);
/// The delays between checks of a server that fails.
const CHECKS: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
/// The delays between failed fetches of discovery.
const DISCOVERY: Backoff = Backoff { first: Duration::from_millis(500), longest: discovery::REFRESH };
/// The delays between failed fetches of OpenAPI documents.
const OPENAPI: Backoff = Backoff { first: openapi::REFRESH, longest: openapi::LONGEST };
/// The delay before documents are fetched after a change.
const SETTLE: Duration = Duration::from_secs(1);
/// The delay after a change of endpoints, which batches changes.
const BATCH: Duration = Duration::from_millis(50);

/// The APIServices as they were last read.
pub(crate) struct Follower {
    cache: Arc<Cache>,
    /// The revision up to which all objects were read.
    seen: u64,
    remote: BTreeMap<String, Arc<Object>>,
    /// Those without a Service whose condition is wrong.
    mislabelled: Vec<Arc<Object>>,
}

/// Reads all APIServices. Requests are forwarded from now on.
pub(crate) fn refresh(server: &Arc<Server>) -> Option<Follower> {
    let cache = Local::new(server).cache(&KIND)?;
    let mut follower = Follower { cache, seen: 0, remote: BTreeMap::new(), mislabelled: Vec::new() };
    follower.read(&server.backend);
    Some(follower)
}

/// Follows the APIServices until the server stops.
pub(crate) async fn run(server: Arc<Server>, follower: Option<Follower>) {
    let Some(mut follower) = follower else { return };
    let backend = &server.backend;
    let mut changes = follower.cache.progress();
    let mut endpoints: Vec<watch::Receiver<u64>> = [("", "services"), ("discovery.k8s.io", "endpointslices")]
        .into_iter()
        .filter_map(|(group, resource)| backend.catalog.cache(group, resource))
        .map(|cache| cache.progress())
        .collect();
    let mut workers: HashMap<String, Worker> = HashMap::new();
    loop {
        changes.mark_unchanged();
        endpoints.iter_mut().for_each(watch::Receiver::mark_unchanged);
        follower.read(backend);
        let table = backend.aggregation.used().unwrap_or_default();
        adjust(&server, &mut workers, &table);
        for entry in table.entries() {
            if let Some(worker) = workers.get_mut(&entry.target.name) {
                worker.announce(backend, &follower);
            }
        }
        let failed = follower.write_local(&server).await;
        let changed = async {
            match table.0.is_empty() {
                true => changes.changed().await,
                false => {
                    let middle = endpoints.len().min(1);
                    let (one, other) = endpoints.split_at_mut(middle);
                    let of = async |list: &mut [watch::Receiver<u64>]| match list.first_mut() {
                        Some(changes) => changes.changed().await,
                        None => std::future::pending().await,
                    };
                    let changed = tokio::select! {
                        changed = changes.changed() => changed,
                        changed = of(one) => changed,
                        changed = of(other) => changed,
                    };
                    backend.clock.sleep(BATCH).await;
                    changed
                }
            }
        };
        tokio::select! {
            changed = changed => if changed.is_err() { return },
            () = backend.clock.sleep(SETTLE), if failed => {}
        }
    }
}

impl Follower {
    /// Reads the APIServices that changed.
    fn read(&mut self, backend: &Backend) {
        let snapshot = self.cache.snapshot("", None);
        let changed = snapshot.objects.iter().filter(|object| object.revision > self.seen);
        let mut is_other = false;
        for object in changed {
            let is_remote = has(&object.json, br#""service":"#) && names_service(object.parsed());
            is_other |= is_remote;
            match is_remote {
                true => drop(self.remote.insert(object.name.to_string(), object.clone())),
                false => is_other |= self.remote.remove(object.name.as_str()).is_some(),
            }
            if !is_remote && !has(&object.json, br#""reason":"Local""#) {
                self.mislabelled.push(object.clone());
            }
        }
        self.seen = snapshot.revision;
        let count = self.remote.len();
        self.remote.retain(|name, _| self.cache.get("", name).is_some());
        if is_other || count != self.remote.len() {
            self.publish(backend);
        }
    }

    /// Makes the table that requests see. A target stays as long as its connection settings do.
    fn publish(&self, backend: &Backend) {
        let old = backend.aggregation.used().unwrap_or_default();
        let entry = |(name, object): (&String, &Arc<Object>)| {
            let object = object.parsed();
            let known = old.0.get(name).map(|entry| entry.target.clone());
            let target = match known.filter(|target| target.is_of(object)) {
                Some(target) => target,
                None => Arc::new(Target::of(&backend.aggregation.client, object)?),
            };
            let entry = Entry {
                target,
                group_priority: object.int_at(&["spec", "groupPriorityMinimum"]).unwrap_or(0),
            };
            Some((name.clone(), entry))
        };
        backend.aggregation.set(Table(self.remote.iter().filter_map(entry).collect()));
    }

    /// Corrects the condition of APIServices without a Service. Returns true if a write failed.
    async fn write_local(&mut self, server: &Arc<Server>) -> bool {
        let (local, backend) = (Local::new(server), &server.backend);
        let mut failed = false;
        for object in std::mem::take(&mut self.mislabelled) {
            let Some(current) = local.get(&KIND, "", &object.name).filter(|current| !names_service(current))
            else {
                continue;
            };
            if let Some(revised) =
                availability::revised(&current, &Outcome::local(), &availability::now(backend))
                && let Err(err) = local.update_status(&KIND, &revised).await
            {
                tracing::warn!(api_service = %object.name, %err, "cannot update status of APIService; retrying");
                self.mislabelled.push(object);
                failed = true;
            }
        }
        failed
    }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// True for the APIService of another server; that of the aggregator itself never is.
fn names_service(object: &Value) -> bool {
    object.at(&["spec", "service"]).is_some_and(|service| !service.is_null())
        && object.str_at(&["spec", "group"]) != Some(KIND.group)
}

/// The tasks of one target; they end when it is dropped.
struct Worker {
    target: Arc<Target>,
    _tasks: JoinSet<()>,
    /// The revisions of the objects that decide about the target.
    known: Vec<u64>,
}

fn adjust(server: &Arc<Server>, workers: &mut HashMap<String, Worker>, table: &Table) {
    workers.retain(|name, worker| {
        table.0.get(name).is_some_and(|entry| Arc::ptr_eq(&entry.target, &worker.target))
    });
    for (name, entry) in &table.0 {
        if !workers.contains_key(name) {
            workers.insert(name.clone(), Worker::start(server, &entry.target));
        }
    }
}

impl Worker {
    fn start(server: &Arc<Server>, target: &Arc<Target>) -> Worker {
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_checked(server.clone(), target.clone()));
        tasks.spawn(keep_discovered(server.clone(), target.clone()));
        tasks.spawn(keep_documented(server.clone(), target.clone()));
        Worker { target: target.clone(), _tasks: tasks, known: Vec::new() }
    }

    /// Tells the tasks if the APIService, the Service or its endpoints have changed.
    fn announce(&mut self, backend: &Backend, follower: &Follower) {
        let Service { namespace, name, .. } = &self.target.service;
        let own = follower.remote.get(&self.target.name).map_or(0, |object| object.revision);
        let service = backend.catalog.cache("", "services").and_then(|cache| cache.get(namespace, name));
        let slices = backend.catalog.cache("discovery.k8s.io", "endpointslices");
        let slices = slices.map(|cache| cache.snapshot(namespace, None).objects).unwrap_or_default();
        let slices = slices.iter().filter(|slice| {
            slice.projection.label("kubernetes.io/service-name").is_some_and(|of| of == name.as_str())
        });
        let revisions: Vec<u64> = [own, service.map_or(0, |service| service.revision)]
            .into_iter()
            .chain(slices.map(|slice| slice.revision))
            .collect();
        if revisions != self.known {
            self.known = revisions;
            self.target.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }
}

/// Waits for a change or for a time to pass. Returns false if the target is gone.
async fn change_within(server: &Server, changes: &mut watch::Receiver<u64>, delay: Duration) -> bool {
    server.backend.clock.timeout(delay, changes.changed()).await.is_none_or(|changed| changed.is_ok())
}

/// Keeps the condition `Available` up to date.
async fn keep_checked(server: Arc<Server>, target: Arc<Target>) {
    let mut changes = target.changed.subscribe();
    let mut failures: u32 = 0;
    loop {
        changes.mark_unchanged();
        let outcome = availability::check(&server, &target).await;
        let written = write_status(&server, &target, &outcome).await;
        failures = if outcome.needs_retry() || !written { failures.saturating_add(1) } else { 0 };
        let delay = if failures == 0 { RESYNC } else { CHECKS.delay(failures) };
        if !change_within(&server, &mut changes, delay).await {
            return;
        }
    }
}

/// Writes the condition if it differs. Returns false if that failed.
async fn write_status(server: &Arc<Server>, target: &Target, outcome: &Outcome) -> bool {
    // First, so that a client that sees the condition is served.
    target.is_available.store(outcome.status == "True", Ordering::Release);
    let local = Local::new(server);
    let Some(current) = local.get(&KIND, "", &target.name).filter(|current| target.is_of(current)) else {
        return true;
    };
    let Some(revised) = availability::revised(&current, outcome, &availability::now(&server.backend)) else {
        return true;
    };
    tracing::info!(
        api_service = target.name,
        status = outcome.status,
        reason = outcome.reason,
        why = outcome.message,
        "APIService availability changed"
    );
    match local.update_status(&KIND, &revised).await {
        Ok(()) => true,
        Err(err) => {
            tracing::warn!(api_service = target.name, %err, "cannot update status of APIService; retrying");
            false
        }
    }
}

/// Keeps the discovery document up to date.
async fn keep_discovered(server: Arc<Server>, target: Arc<Target>) {
    let mut changes = target.changed.subscribe();
    let mut failures: u32 = 0;
    loop {
        changes.mark_unchanged();
        match discovery::fetch(&server.backend, &target).await {
            Ok(()) => failures = 0,
            Err(err) => {
                failures = failures.saturating_add(1);
                tracing::debug!(api_service = target.name, err, "cannot fetch discovery; retrying");
            }
        }
        let delay = if failures == 0 { discovery::REFRESH } else { DISCOVERY.delay(failures) };
        if !change_within(&server, &mut changes, delay).await {
            return;
        }
    }
}

/// Keeps the OpenAPI documents up to date.
async fn keep_documented(server: Arc<Server>, target: Arc<Target>) {
    let mut changes = target.changed.subscribe();
    let mut failures: u32 = 0;
    loop {
        server.backend.clock.sleep(SETTLE).await;
        changes.mark_unchanged();
        match openapi::fetch(&server.backend, &target).await {
            Ok(()) => {
                failures = 0;
                // Changes of the endpoints do not change the documents.
                server.backend.clock.sleep(openapi::REFRESH).await;
                continue;
            }
            Err(err) => {
                failures = failures.saturating_add(1);
                tracing::debug!(api_service = target.name, err, "cannot fetch OpenAPI documents; retrying");
            }
        }
        if !change_within(&server, &mut changes, OPENAPI.delay(failures)).await {
            return;
        }
    }
}
