//! Bootstrap objects, which the server itself creates and reconciles: one file per kind.
//!
//! Each step reads the caches and writes only objects that are missing or wrong, by ordinary requests and concurrently, so
//! that a fresh start takes few commits and a restart none. After the start the same steps run again whenever one of their
//! objects changes; nothing runs while nothing changes.

pub(crate) mod api_services;
mod client;
mod flow_control;
mod kubernetes_service;
mod namespaces;
mod priority_classes;
mod service_cidr;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use tokio::sync::watch;

pub(crate) use client::{Failure, Kind, Local};

use crate::{Server, allocation, authentication, authorization};

/// The delay between a change and the reconciliation, which batches changes.
const SETTLE: Duration = Duration::from_secs(1);

type Step = for<'a> fn(&'a Local<'a>) -> BoxFuture<'a, Result<(), Failure>>;

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

/// Creates and corrects the bootstrap objects at start.
pub(crate) async fn run(server: &Arc<Server>) -> Result<(), Failure> {
    let local = Local::new(server);
    for steps in STAGES {
        futures_util::future::try_join_all(steps.iter().map(|step| step(&local))).await?;
    }
    Ok(())
}

/// Reconciles the bootstrap objects whenever one of them changes. Returns only if no kind is watched.
pub(crate) async fn reconcile_on_changes(server: Arc<Server>) {
    let local = Local::new(&server);
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
    if let Err(failure) = kubernetes_service::remove_endpoint(&Local::new(server)).await {
        tracing::warn!(err = %failure, "cannot remove this server from the endpoints of the kubernetes service");
    }
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
