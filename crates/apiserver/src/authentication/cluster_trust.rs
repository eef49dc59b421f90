//! The config map `extension-apiserver-authentication`, from which other servers of the cluster read the CAs and front-proxy
//! headers to trust.
//!
//! Other API servers may have written it too: their entries stay.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Value, json, value};
use corten_auth::authentication::FrontProxy;
use corten_auth::{MASTERS, User};
use corten_pki::{identity_of, pem_certificates, to_pem};
use http::{Request, StatusCode, header};
use http_body_util::Full;
use jiff::Timestamp;

use super::{AuthenticationOptions, Peer};
use crate::Server;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The attempts to write objects that other servers write at the same time.
const ATTEMPTS: usize = 5;
/// The config map with the day since which the use of long-lived tokens is tracked.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// The CAs and front-proxy headers that this server trusts.
#[derive(Clone)]
pub(super) struct Trust {
    client_ca: String,
    /// CAs that are not trusted any more.
    retired: String,
    proxy_ca: String,
    proxy: FrontProxy,
}

impl Trust {
    /// Publishes these CAs of clients from now on.
    pub(super) fn replace(&mut self, client_ca: &str, retired: &str) {
        client_ca.clone_into(&mut self.client_ca);
        retired.clone_into(&mut self.retired);
    }

    pub(super) fn of(options: &AuthenticationOptions) -> Trust {
        Trust {
            client_ca: options.client_ca_pem.clone(),
            retired: options.retired_ca_pem.clone(),
            proxy_ca: options.front_proxy_ca_pem.clone(),
            proxy: options.front_proxy.clone(),
        }
    }

    /// The config map's data: the existing entries and this server's.
    fn data(&self, existing: &Value, now: Timestamp) -> Value {
        let found = |key: &str| existing.str_at(&[key]).unwrap_or_default();
        let mut data = Value::object();
        let mut set = |key: &str, text: String| data.set(&[key], text);
        let client_ca = bundle(&[found("client-ca-file"), &self.client_ca], &self.retired, now);
        if !client_ca.is_empty() {
            set("client-ca-file", client_ca);
        }
        let proxy_ca = bundle(&[found("requestheader-client-ca-file"), &self.proxy_ca], "", now);
        if !proxy_ca.is_empty() {
            let proxy = &self.proxy;
            set("requestheader-client-ca-file", proxy_ca);
            for (key, own) in [
                ("requestheader-allowed-names", &proxy.allowed_names),
                ("requestheader-username-headers", &proxy.username_headers),
                ("requestheader-uid-headers", &proxy.uid_headers),
                ("requestheader-group-headers", &proxy.group_headers),
                ("requestheader-extra-headers-prefix", &proxy.extra_header_prefixes),
            ] {
                let list = list(found(key), own);
                if key != "requestheader-uid-headers" || list != "[]" {
                    set(key, list);
                }
            }
        }
        data
    }
}

/// Both bundles' certificates, each once, without those that have expired or are retired.
fn bundle(texts: &[&str], retired: &str, now: Timestamp) -> String {
    let retired = pem_certificates(retired).unwrap_or_default();
    let mut certificates: Vec<Vec<u8>> = Vec::new();
    for der in texts.iter().flat_map(|text| pem_certificates(text).unwrap_or_default()) {
        let live =
            identity_of(&der).is_ok_and(|identity| std::time::SystemTime::from(now) < identity.not_after);
        if live && !retired.contains(&der) && !certificates.iter().any(|known| known == der.as_ref()) {
            certificates.push(der.to_vec());
        }
    }
    certificates.iter().map(|der| to_pem(der)).collect()
}

/// Both lists' items, each once, as JSON.
fn list(existing: &str, own: &[String]) -> String {
    let existing = json::parse(existing.as_bytes()).unwrap_or_default();
    let existing = existing.as_array().unwrap_or_default().iter().cloned();
    let mut items: Vec<Value> = Vec::new();
    for item in existing.chain(own.iter().map(|item| Value::from(item.as_str()))) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    json::write_to_string(&Value::Array(items))
}

/// Creates or completes the config maps, by ordinary requests. Again, if another server writes them at the same time.
pub(crate) async fn publish(server: &Arc<Server>) -> Result<(), String> {
    for _ in 0..ATTEMPTS {
        if complete(server).await? {
            return Ok(());
        }
    }
    Err(format!("other servers keep changing {NAMESPACE}/{NAME}"))
}

/// Returns false after a conflict.
async fn complete(server: &Arc<Server>) -> Result<bool, String> {
    let now = server.backend.clock.now();
    let cache = server.backend.catalog.cache("", "configmaps");
    let get = |name: &str| cache.as_ref().and_then(|cache| cache.get(NAMESPACE, name)).map(|o| o.tree());
    let existing = get(NAME);
    let known = existing.as_ref().and_then(|map| map.get("data")).cloned().unwrap_or_else(Value::object);
    let trust = server.backend.authentication.trust.read().clone();
    let data = trust.data(&known, now);
    let mut is_complete = true;
    if data != known || existing.is_none() {
        is_complete &= write(server, NAME, existing, data).await?;
    }
    if get(TRACKING).is_none() {
        let since = now.strftime("%Y-%m-%d").to_string();
        is_complete &= write(server, TRACKING, None, value!({"since": since})).await?;
    }
    Ok(is_complete)
}

/// Writes a config map. Returns false if it is not the `existing` one any longer.
async fn write(
    server: &Arc<Server>,
    name: &str,
    existing: Option<Value>,
    data: Value,
) -> Result<bool, String> {
    let at = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (method, path) = match existing {
        Some(_) => ("PUT", format!("{at}/{name}")),
        None => ("POST", at),
    };
    let mut map = existing.unwrap_or_else(|| value!({"kind": "ConfigMap", "apiVersion": "v1"}));
    map.set(&["metadata", "name"], name);
    map.set(&["metadata", "namespace"], NAMESPACE);
    map.set(&["data"], data);
    let body = json::write_to_string(&map);
    match send(server, &own_peer(), method, &path, "application/json", body).await? {
        StatusCode::CONFLICT => Ok(false),
        status => check_success(method, &path, status).map(|()| true),
    }
}

/// The peer of the server's own requests.
pub(super) fn own_peer() -> Peer {
    let user = User { name: "system:apiserver".into(), groups: vec![MASTERS.into()], ..User::default() };
    Peer::InProcess(Arc::new(user))
}

/// The error of a response that is not a success.
pub(super) fn check_success(method: &str, path: &str, status: StatusCode) -> Result<(), String> {
    if status.is_success() { Ok(()) } else { Err(format!("{method} {path}: {status}")) }
}

/// Sends a request of the server to itself.
pub(super) async fn send(
    server: &Arc<Server>,
    peer: &Peer,
    method: &str,
    path: &str,
    content_type: &'static str,
    body: String,
) -> Result<StatusCode, String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, "kube-apiserver/v1.37.0")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    Ok(server.handle(request, peer).await.status())
}
