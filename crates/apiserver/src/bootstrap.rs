//! What a fresh cluster holds: the namespaces everything else lives in.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::Value;
use corten_auth::{MASTERS, User};
use http::{Request, header};
use http_body_util::Full;

use crate::Server;
use crate::authentication::{self, Peer};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates what is missing, through the front door.
pub(crate) async fn run(server: &Arc<Server>) -> Result<(), String> {
    let user = User { name: "system:apiserver".into(), groups: vec![MASTERS.into()], ..User::default() };
    let peer = Peer::Known(Arc::new(user));
    for name in NAMESPACES {
        let known = server.backend.catalog.cache("", "namespaces").and_then(|c| c.get("", name));
        if known.is_some() {
            continue;
        }
        let mut namespace = Value::object();
        namespace.set(&["kind"], "Namespace");
        namespace.set(&["apiVersion"], "v1");
        namespace.set(&["metadata", "name"], name);
        let body = corten_api::json::write_to_string(&namespace);
        let request = Request::post("/api/v1/namespaces")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "kube-apiserver/v1.37.0")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        let answer = server.handle_local(request, &peer).await;
        if !answer.status().is_success() && answer.status() != http::StatusCode::CONFLICT {
            return Err(format!("namespace {name} could not be created: {}", answer.status()));
        }
    }
    authentication::publish(server).await
}
