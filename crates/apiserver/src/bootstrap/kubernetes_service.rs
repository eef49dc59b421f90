//! The `kubernetes` service in `default`, through which pods reach this server.
//!
//! The service is created once and not changed later; its endpoints are reconciled to the server's address.

use std::net::SocketAddr;

use corten_api::{Value, meta, value};

use super::{Failure, Kind, Local};

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

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    let at = local.server().endpoint;
    futures_util::future::try_join3(
        ensure_service(local),
        ensure_endpoints(local, at),
        ensure_slice(local, at),
    )
    .await
    .map(|_| ())
}

/// Removes this server's address from the endpoints.
pub(super) async fn remove_endpoint(local: &Local<'_>) -> Result<(), Failure> {
    futures_util::future::try_join(ensure_endpoints(local, None), ensure_slice(local, None)).await.map(|_| ())
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
    match local.get(kind, NAMESPACE, NAME) {
        None => local.create(kind, &wanted, "").await,
        Some(current) if compared.iter().all(|path| current.at(path) == wanted.at(path)) => Ok(()),
        Some(current) => {
            let mut wanted = wanted;
            meta::set_text(&mut wanted, "resourceVersion", meta::resource_version(&current));
            local.update(kind, &wanted, "").await
        }
    }
}

async fn ensure_endpoints(local: &Local<'_>, at: Option<SocketAddr>) -> Result<(), Failure> {
    let wanted = endpoints(at);
    let labelled = ["metadata", "labels", SKIP_MIRROR];
    ensure_as(local, &ENDPOINTS, wanted, &[&["subsets"], &labelled]).await
}

async fn ensure_slice(local: &Local<'_>, at: Option<SocketAddr>) -> Result<(), Failure> {
    if local.cache(&SLICES).is_none() {
        return Ok(());
    }
    let wanted = slice(at);
    let current = local.get(&SLICES, NAMESPACE, NAME);
    let kind_of = |slice: &Value| slice.get("addressType").cloned();
    // The address type of a slice is immutable.
    if current.as_ref().is_some_and(|current| kind_of(current) != kind_of(&wanted)) {
        if at.is_none() {
            return Ok(());
        }
        local.delete(&SLICES, NAMESPACE, NAME).await?;
    }
    ensure_as(local, &SLICES, wanted, &[&["endpoints"], &["ports"], &["metadata", "labels"]]).await
}

fn endpoints(at: Option<SocketAddr>) -> Value {
    let mut endpoints = ENDPOINTS.named(NAMESPACE, NAME);
    endpoints.set(&["metadata", "labels", SKIP_MIRROR], "true");
    if let Some(at) = at {
        let mut subset = value!({"ports": [{"name": "https", "protocol": "TCP"}]});
        let mut address = Value::object();
        address.set(&["ip"], at.ip().to_string());
        subset.set(&["addresses"], vec![address]);
        subset.set(&["ports"], vec![port(at)]);
        endpoints.set(&["subsets"], vec![subset]);
    }
    endpoints
}

fn slice(at: Option<SocketAddr>) -> Value {
    let mut slice = SLICES.named(NAMESPACE, NAME);
    slice.set(&["metadata", "labels", SERVICE_NAME], NAME);
    slice.set(&["addressType"], if at.is_some_and(|at| at.is_ipv6()) { "IPv6" } else { "IPv4" });
    slice.set(&["endpoints"], Value::Null);
    slice.set(&["ports"], Value::Null);
    if let Some(at) = at {
        let mut endpoint = value!({"conditions": {"ready": true}});
        endpoint.set(&["addresses"], vec![Value::from(at.ip().to_string())]);
        slice.set(&["endpoints"], vec![endpoint]);
        slice.set(&["ports"], vec![port(at)]);
    }
    slice
}

fn port(at: SocketAddr) -> Value {
    let mut port = value!({"name": "https", "protocol": "TCP"});
    port.set(&["port"], i64::from(at.port()));
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_the_servers_address() {
        let at: SocketAddr = "192.0.2.2:6443".parse().unwrap();
        let expected = value!([
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]},
        ]);
        assert_eq!(endpoints(Some(at)).get("subsets"), Some(&expected));
        assert_eq!(endpoints(None).get("subsets"), None);
        let shown = slice(Some(at));
        assert_eq!(shown.str_at(&["addressType"]), Some("IPv4"));
        let expected = value!([{"addresses": ["192.0.2.2"], "conditions": {"ready": true}}]);
        assert_eq!(shown.get("endpoints"), Some(&expected));
        let sixth: SocketAddr = "[2001:db8::1]:6443".parse().unwrap();
        assert_eq!(slice(Some(sixth)).str_at(&["addressType"]), Some("IPv6"));
    }
}
