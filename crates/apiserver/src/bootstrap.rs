//! Bootstrap objects, which the server itself creates and reconciles: one file per kind.
//!
//! Each step reads the caches and writes only objects that are missing or wrong, by ordinary requests and concurrently, so
//! that a fresh start takes few commits and a restart none. After the start the same steps run again whenever one of their
//! objects changes; nothing runs while nothing changes.
//!
//! *Invariant:* webhooks and policies can delay the start only by a few seconds, never prevent it: their configuration can
//! be repaired only while the server runs.

pub(crate) mod api_services;
mod client;
mod flow_control;
pub(crate) mod kubernetes_service;
mod namespaces;
mod priority_classes;
mod service_cidr;

use std::sync::Arc;
use std::time::Duration;

use corten_base::Backoff;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, select_all, try_join_all};
use tokio::sync::watch;

pub(crate) use client::{Failure, Kind, Local};

use crate::{Server, allocation, authentication, authorization};

/// The delay between a change and the reconciliation, which batches changes.
const SETTLE: Duration = Duration::from_secs(1);

/// The time that a step may take at start while a webhook may refuse its objects or keep it waiting.
const MOST_AT_START: Duration = Duration::from_secs(5);
/// The time that the last writes may take: the datastore may be gone.
const MOST_AT_STOP: Duration = Duration::from_secs(5);
const RETRIES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

pub(crate) type Step = for<'a> fn(&'a Local<'a>) -> BoxFuture<'a, Result<(), Failure>>;

/// The steps at start. Steps of one stage run concurrently; namespaces and the service range are created before the
/// objects that need them.
const STAGES: [&[Step]; 2] = [
    &[
        |local| namespaces::ensure(local).boxed(),
        |local| service_cidr::ensure(local).boxed(),
        |local| priority_classes::ensure(local).boxed(),
        |local| flow_control::ensure(local).boxed(),
        |local| api_services::ensure(local).boxed(),
    ],
    &[
        |local| kubernetes_service::ensure(local).boxed(),
        |local| roles(local).boxed(),
        |local| trust(local).boxed(),
        |local| repair(local).boxed(),
    ],
];

/// The steps after the start, each with the kinds whose changes trigger it.
const WATCHED: [(&[Kind], Step); 5] = [
    (&[namespaces::KIND], |local| namespaces::ensure(local).boxed()),
    (&[service_cidr::KIND], |local| service_cidr::ensure(local).boxed()),
    (kubernetes_service::KINDS, |local| kubernetes_service::ensure(local).boxed()),
    (flow_control::KINDS, |local| flow_control::ensure(local).boxed()),
    (&[CONFIG_MAPS], |local| trust(local).boxed()),
];

const CONFIG_MAPS: Kind = Kind { group: "", version: "v1", resource: "configmaps", kind: "ConfigMap" };

/// Creates and corrects the bootstrap objects at start. Returns the steps that admission may have refused, which are to be
/// retried.
pub(crate) async fn run(server: &Arc<Server>) -> Result<Vec<Step>, Failure> {
    let local = Local::new(server);
    let mut refused = Vec::new();
    for steps in STAGES {
        if !server.backend.admission.may_refuse() {
            try_join_all(steps.iter().map(|step| step(&local))).await?;
            continue;
        }
        let limited = steps.iter().map(|step| tokio::time::timeout(MOST_AT_START, step(&local)));
        for (step, outcome) in steps.iter().zip(join_all(limited).await) {
            let why = match outcome {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure.to_string(),
                Err(late) => late.to_string(),
            };
            tracing::warn!(err = why, "cannot create bootstrap objects; retrying");
            refused.push(*step);
        }
    }
    Ok(refused)
}

/// Retries the steps that were refused at start, and reconciles the bootstrap objects whenever one of them changes.
pub(crate) async fn reconcile(server: Arc<Server>, refused: Vec<Step>) {
    tokio::join!(
        retry(&server, refused),
        reconcile_on_changes(&server),
        kubernetes_service::follow_servers(&server)
    );
}

async fn retry(server: &Arc<Server>, mut refused: Vec<Step>) {
    let local = Local::new(server);
    let mut rounds = 0u32;
    while !refused.is_empty() {
        rounds = rounds.saturating_add(1);
        let backoff = RETRIES.delay(rounds);
        server.backend.clock.sleep(backoff).await;
        let mut still = Vec::new();
        for step in refused {
            if let Err(failure) = step(&local).await {
                tracing::warn!(err = %failure, ?backoff, "cannot create bootstrap objects; retrying");
                still.push(step);
            }
        }
        refused = still;
    }
}

/// Reconciles the bootstrap objects whenever one of them changes. Returns only if no kind is watched.
async fn reconcile_on_changes(server: &Arc<Server>) {
    let local = Local::new(server);
    let kinds = WATCHED.iter().flat_map(|(kinds, _)| kinds.iter()).chain([&kubernetes_service::ADDRESSES]);
    let mut changes: Vec<watch::Receiver<u64>> =
        kinds.filter_map(|kind| local.cache(kind)).map(|cache| cache.progress()).collect();
    let mut repaired = server.backend.store.revision();
    loop {
        if changes.is_empty() {
            return;
        }
        select_all(changes.iter_mut().map(|change| Box::pin(change.changed()))).await.0.ok();
        server.backend.clock.sleep(SETTLE).await;
        changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
        for (_, step) in WATCHED {
            if let Err(failure) = step(&local).await {
                tracing::warn!(err = %failure, "cannot reconcile bootstrap objects");
            }
        }
        let (needed, reached) = allocation::repair_after(&server.backend, repaired);
        repaired = reached;
        if needed {
            // Only recording events can fail, which is not retried.
            let _ = repair(&local).await;
        }
    }
}

/// Removes this server's address from the endpoints of the `kubernetes` service.
pub(crate) async fn remove_endpoint(server: &Arc<Server>) {
    let local = Local::new(server);
    let removing = Box::pin(kubernetes_service::remove_endpoint(&local));
    let removed = server.backend.clock.timeout(MOST_AT_STOP, removing);
    let err = match removed.await {
        Some(Ok(())) => return,
        Some(Err(failure)) => failure.to_string(),
        None => "the datastore does not respond".to_owned(),
    };
    tracing::warn!(err, "cannot remove this server from the endpoints of the kubernetes service");
}

async fn roles(local: &Local<'_>) -> Result<(), Failure> {
    authorization::bootstrap_policy::run(local.server()).await.map_err(|why| Failure::new("roles", why))
}

async fn trust(local: &Local<'_>) -> Result<(), Failure> {
    authentication::publish(local.server()).await.map_err(|why| Failure::new("configmaps", why))
}

async fn repair(local: &Local<'_>) -> Result<(), Failure> {
    for finding in allocation::repair(local.backend()).await {
        local.event(&finding).await;
    }
    Ok(())
}
