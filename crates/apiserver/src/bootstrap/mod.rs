//! What a cluster holds before anybody asks for anything: one file per kind of object.
//!
//! Each step looks at the caches, writes only what is missing or wrong, and does so through the front door,
//! all at once, so that a fresh start takes few commits and a restart none. After the start the same steps
//! run again whenever something they look after has changed; nothing runs while nothing changes.

mod api_services;
mod flow_control;
mod kubernetes_service;
mod local;
mod namespaces;
mod priority_classes;
mod service_cidr;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use tokio::sync::watch;

pub(crate) use local::{Failure, Kind, Local};

use crate::{Server, allocation, authentication, authorization};

/// How long changes are let settle before they are looked at.
const SETTLE: Duration = Duration::from_secs(1);

type Step = for<'a> fn(&'a Local<'a>) -> BoxFuture<'a, Result<(), Failure>>;

/// What is done at the start. Steps of one stage run side by side; namespaces and the service range come
/// before what needs them.
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

/// What is looked after from then on: the kinds whose changes matter, and the step to take.
const WATCHED: [(&[Kind], Step); 4] = [
    (&[namespaces::KIND], |local| namespaces::ensure(local).boxed()),
    (&[service_cidr::KIND], |local| service_cidr::ensure(local).boxed()),
    (kubernetes_service::KINDS, |local| kubernetes_service::ensure(local).boxed()),
    (flow_control::KINDS, |local| flow_control::ensure(local).boxed()),
];

/// Creates and corrects what has to be there.
pub(crate) async fn run(server: &Arc<Server>) -> Result<(), Failure> {
    let local = Local::new(server);
    for steps in STAGES {
        futures_util::future::try_join_all(steps.iter().map(|step| step(&local))).await?;
    }
    Ok(())
}

/// Keeps what has to be there as it has to be. Ends only if there is nothing to keep.
pub(crate) async fn keep(server: Arc<Server>) {
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
                tracing::warn!(error = %failure, "what every cluster holds could not be kept up");
            }
        }
        let (needed, reached) = allocation::repair_after(&server.backend, repaired);
        repaired = reached;
        if needed {
            // Only events can fail to be written, and they are not worth more than this.
            let _ = repair(&local).await;
        }
    }
}

/// Takes this server's address out of the `kubernetes` service.
pub(crate) async fn withdraw(server: &Arc<Server>) {
    if let Err(failure) = kubernetes_service::withdraw(&Local::new(server)).await {
        tracing::warn!(error = %failure, "this server's address could not be withdrawn");
    }
}

async fn roles(local: &Local<'_>) -> Result<(), Failure> {
    authorization::bootstrap::run(local.server()).await.map_err(|why| Failure::new("roles", why))
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
