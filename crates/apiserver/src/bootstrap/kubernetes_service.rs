//! The `kubernetes` service in `default`, through which pods reach the API servers.
//!
//! The service is created once and not changed later; its endpoints are reconciled to the addresses of the living servers
//! (`groups`). If the datastore is this server's own, that is this server. Servers that share a datastore find each other by
//! records with leases (`leases`), as upstream's do.

mod groups;
mod leases;

use std::net::SocketAddr;
use std::sync::Arc;

use corten_api::{Value, meta, value};

pub(crate) use leases::OwnLease;

use super::{Failure, Kind, Local};
use crate::Server;

const SERVICES: Kind = Kind { group: "", version: "v1", resource: "services", kind: "Service" };
const ENDPOINTS: Kind = Kind { group: "", version: "v1", resource: "endpoints", kind: "Endpoints" };
const SLICES: Kind =
    Kind { group: "discovery.k8s.io", version: "v1", resource: "endpointslices", kind: "EndpointSlice" };
pub(super) const KINDS: &[Kind] = &[SERVICES, ENDPOINTS, SLICES];
/// The kind that allocates the addresses of services.
pub(super) const ADDRESSES: Kind =
    Kind { group: "networking.k8s.io", version: "v1", resource: "ipaddresses", kind: "IPAddress" };

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const SERVICE_PORT: i64 = 443;
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Lists this server, and reconciles the service and its endpoints.
pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    let server = local.server();
    let store = &server.backend.store;
    if !store.is_shared() {
        let own: Vec<SocketAddr> = server.endpoint.into_iter().collect();
        return reconcile(local, &own).await;
    }
    if let Some(at) = server.endpoint {
        let renewed = server.own_lease.renew(store, at).await;
        renewed.map_err(|error| Failure::new("masterleases", error.to_string()))?;
    }
    reconcile_living(local).await
}

/// Removes this server's address from the endpoints.
pub(super) async fn remove_endpoint(local: &Local<'_>) -> Result<(), Failure> {
    let server = local.server();
    let store = &server.backend.store;
    if !store.is_shared() {
        return reconcile_endpoints(local, &[]).await;
    }
    let ended = server.own_lease.end(store).await;
    ended.map_err(|error| Failure::new("masterleases", error.to_string()))?;
    reconcile_endpoints(local, &leases::living(store, server.port)).await
}

/// Keeps this server listed, and follows the others as they come and go. Never returns while the datastore is open.
pub(super) async fn follow_servers(server: &Arc<Server>) {
    if server.backend.store.is_shared() {
        tokio::join!(stay_listed(server), follow_records(server));
    }
}

async fn stay_listed(server: &Arc<Server>) {
    let local = Local::new(server);
    while !server.backend.store.is_closed() {
        server.backend.clock.sleep(leases::PERIOD).await;
        if let Err(failure) = ensure(&local).await {
            tracing::warn!(err = %failure, "cannot reconcile the endpoints of the kubernetes service; retrying");
        }
    }
}

async fn follow_records(server: &Arc<Server>) {
    let (local, store) = (Local::new(server), &server.backend.store);
    while !store.is_closed() {
        if let Ok(mut records) = store.watch(leases::PREFIX, store.revision()) {
            while records.next().await.is_ok() {
                if let Err(failure) = reconcile_living(&local).await {
                    tracing::warn!(err = %failure, "cannot reconcile the endpoints of the kubernetes service; retrying");
                }
            }
        }
        // The watch is lost; changes in between are found by the periodic reconciliation.
        server.backend.clock.sleep(leases::PERIOD).await;
    }
}

/// Reconciles with the living servers. This server was listed before, so an empty list means that the records are not what
/// they should be; then nothing is removed, as with upstream.
async fn reconcile_living(local: &Local<'_>) -> Result<(), Failure> {
    let server = local.server();
    let living = leases::living(&server.backend.store, server.port);
    if living.is_empty() && server.endpoint.is_some() {
        let why = "no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service";
        return Err(Failure::new("masterleases", why.to_owned()));
    }
    reconcile(local, &living).await
}

async fn reconcile(local: &Local<'_>, servers: &[SocketAddr]) -> Result<(), Failure> {
    futures_util::future::try_join(ensure_service(local), reconcile_endpoints(local, servers)).await.map(drop)
}

async fn reconcile_endpoints(local: &Local<'_>, servers: &[SocketAddr]) -> Result<(), Failure> {
    futures_util::future::try_join(ensure_endpoints(local, servers), ensure_slices(local, servers))
        .await
        .map(drop)
}

async fn ensure_service(local: &Local<'_>) -> Result<(), Failure> {
    if local.cache(&ADDRESSES).is_none() || local.get(&SERVICES, NAMESPACE, NAME).is_some() {
        return Ok(());
    }
    let server = local.server();
    let mut service = SERVICES.named(NAMESPACE, NAME);
    service.set(&["metadata", "labels", "component"], "apiserver");
    service.set(&["metadata", "labels", "provider"], "kubernetes");
    let mut port = value!({"name": "https", "protocol": "TCP", "port": SERVICE_PORT});
    port.set(&["targetPort"], i64::from(server.port));
    service.set(&["spec", "ports"], vec![port]);
    service.set(&["spec", "clusterIP"], server.service_ranges.first_address().to_string());
    service.set(&["spec", "ipFamilyPolicy"], "SingleStack");
    service.set(&["spec", "sessionAffinity"], "None");
    service.set(&["spec", "type"], "ClusterIP");
    local.create(&SERVICES, &service, "").await
}

/// Creates or updates an object if the given fields differ.
async fn ensure_as(
    local: &Local<'_>,
    kind: &Kind,
    wanted: Value,
    compared: &[&[&str]],
) -> Result<(), Failure> {
    match local.get(kind, NAMESPACE, meta::name(&wanted)) {
        None => local.create(kind, &wanted, "").await,
        Some(current) if compared.iter().all(|path| current.at(path) == wanted.at(path)) => Ok(()),
        Some(current) => {
            let mut wanted = wanted;
            meta::set_text(&mut wanted, "resourceVersion", meta::resource_version(&current));
            local.update(kind, &wanted, "").await
        }
    }
}

async fn ensure_endpoints(local: &Local<'_>, servers: &[SocketAddr]) -> Result<(), Failure> {
    let labelled = ["metadata", "labels", SKIP_MIRROR];
    ensure_as(local, &ENDPOINTS, groups::endpoints(servers), &[&["subsets"], &labelled]).await
}

async fn ensure_slices(local: &Local<'_>, servers: &[SocketAddr]) -> Result<(), Failure> {
    let Some(cache) = local.cache(&SLICES) else { return Ok(()) };
    let wanted = groups::slices(servers);
    for found in cache.snapshot(NAMESPACE, None).objects {
        let is_wanted = || wanted.iter().any(|slice| meta::name(slice) == &*found.name);
        if groups::is_other_name(&found.name) && !is_wanted() {
            local.delete(&SLICES, NAMESPACE, &found.name).await?;
        }
    }
    for slice in wanted {
        ensure_slice(local, slice, servers.is_empty()).await?;
    }
    Ok(())
}

async fn ensure_slice(local: &Local<'_>, wanted: Value, is_empty: bool) -> Result<(), Failure> {
    let name = meta::name(&wanted).to_owned();
    let current = local.get(&SLICES, NAMESPACE, &name);
    let kind_of = |slice: &Value| slice.get("addressType").cloned();
    // The address type of a slice is immutable.
    if current.as_ref().is_some_and(|current| kind_of(current) != kind_of(&wanted)) {
        if is_empty {
            return Ok(());
        }
        local.delete(&SLICES, NAMESPACE, &name).await?;
    }
    ensure_as(local, &SLICES, wanted, &[&["endpoints"], &["ports"], &["metadata", "labels"]]).await
}
