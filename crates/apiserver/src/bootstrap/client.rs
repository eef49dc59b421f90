//! The server as its own client: ordinary requests with its own identity.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Value, json, meta, time};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;

use crate::Server;
use crate::allocation::Finding;
use crate::authentication::Peer;
use crate::cache::Cache;
use crate::call::{Backend, USER_AGENT_OF_SERVER, server_user};

/// Group, version and resource of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) kind: &'static str,
}

/// A failed request of the server to itself.
#[derive(Debug, thiserror::Error)]
#[error("{what} {name:?}: {message}")]
pub(crate) struct Failure {
    what: &'static str,
    name: String,
    code: StatusCode,
    message: String,
}

pub(crate) struct Local<'a> {
    server: &'a Arc<Server>,
    peer: Peer,
}

const EVENTS: Kind = Kind { group: "events.k8s.io", version: "v1", resource: "events", kind: "Event" };

impl Failure {
    /// The failure of a bootstrap step.
    pub(crate) fn new(what: &'static str, message: String) -> Failure {
        Failure { what, name: String::new(), code: StatusCode::INTERNAL_SERVER_ERROR, message }
    }
}

impl Kind {
    fn api_version(&self) -> String {
        corten_api::resources::api_version(self.group, self.version)
    }

    fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("{root}/{}{namespace}/{}{name}", self.version, self.resource)
    }

    /// An object of this kind with only a name.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Value {
        let mut object = Value::object();
        object.set(&["apiVersion"], self.api_version());
        object.set(&["kind"], self.kind);
        meta::set_text(&mut object, "name", name);
        meta::set_text(&mut object, "namespace", namespace);
        object
    }
}

impl<'a> Local<'a> {
    pub(crate) fn new(server: &'a Arc<Server>) -> Local<'a> {
        Local { server, peer: Peer::InProcess(Arc::new(server_user())) }
    }

    pub(crate) fn server(&self) -> &'a Arc<Server> {
        self.server
    }

    pub(crate) fn backend(&self) -> &'a Arc<Backend> {
        &self.server.backend
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.server.backend.clock.now()
    }

    /// The objects of a kind; `None` if the server does not serve it.
    pub(crate) fn cache(&self, kind: &Kind) -> Option<Arc<Cache>> {
        let served = self.backend().catalog.get(kind.group, kind.version, kind.resource)?;
        served.cache.clone()
    }

    /// A stored object.
    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.cache(kind)?.get(namespace, name).map(|object| object.tree())
    }

    /// Creates an object; an existing one is not an error.
    pub(crate) async fn create(&self, kind: &Kind, object: &Value, query: &str) -> Result<(), Failure> {
        let path = format!("{}{query}", kind.path(meta::namespace(object), ""));
        match self.request(Method::POST, &path, kind, object, "application/json").await {
            Err(failure) if failure.code == StatusCode::CONFLICT => Ok(()),
            outcome => outcome,
        }
    }

    /// Replaces an object; a conflict is not an error.
    pub(crate) async fn update(&self, kind: &Kind, object: &Value, query: &str) -> Result<(), Failure> {
        let path = format!("{}{query}", kind.path(meta::namespace(object), meta::name(object)));
        match self.request(Method::PUT, &path, kind, object, "application/json").await {
            Err(failure) if failure.code == StatusCode::CONFLICT => Ok(()),
            outcome => outcome,
        }
    }

    /// Replaces the status of an object; a conflict is not an error.
    pub(crate) async fn update_status(&self, kind: &Kind, object: &Value) -> Result<(), Failure> {
        let path = format!("{}/status", kind.path(meta::namespace(object), meta::name(object)));
        match self.request(Method::PUT, &path, kind, object, "application/json").await {
            Err(failure) if matches!(failure.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
            outcome => outcome,
        }
    }

    /// Applies a status with a field manager.
    pub(crate) async fn apply_status(
        &self,
        kind: &Kind,
        object: &Value,
        manager: &str,
    ) -> Result<(), Failure> {
        let path = format!(
            "{}/status?fieldManager={manager}&force=true",
            kind.path(meta::namespace(object), meta::name(object))
        );
        self.request(Method::PATCH, &path, kind, object, "application/apply-patch+yaml").await
    }

    /// Deletes an object; a missing one is not an error.
    pub(crate) async fn delete(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        let object = kind.named(namespace, name);
        match self.request(Method::DELETE, &kind.path(namespace, name), kind, &object, "").await {
            Err(failure) if failure.code == StatusCode::NOT_FOUND => Ok(()),
            outcome => outcome,
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        kind: &Kind,
        object: &Value,
        content_type: &str,
    ) -> Result<(), Failure> {
        let failure = |code, message| Failure {
            what: kind.resource,
            name: meta::name(object).to_owned(),
            code,
            message,
        };
        let body = if content_type.is_empty() { Bytes::new() } else { json::write_to_string(object).into() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, USER_AGENT_OF_SERVER)
            .body(Full::new(body))
            .map_err(|error| failure(StatusCode::BAD_REQUEST, error.to_string()))?;
        let answer = self.server.handle(request, &self.peer).await;
        let code = answer.status();
        if code.is_success() {
            return Ok(());
        }
        let said = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let status = json::parse(&said).unwrap_or_default();
        Err(failure(code, status.str_at(&["message"]).unwrap_or(code.as_str()).to_owned()))
    }

    /// Records an event about an inconsistency. A failure is only logged.
    pub(crate) async fn event(&self, finding: &Finding) {
        if self.cache(&EVENTS).is_none() {
            return;
        }
        let now = self.now();
        let namespace = if finding.namespace.is_empty() { "default" } else { &finding.namespace };
        let name = format!("{}.{:x}", finding.name, now.as_nanosecond());
        let mut event = EVENTS.named(namespace, &name);
        event.set(&["type"], "Warning");
        event.set(&["eventTime"], time::format_micro(now));
        event.set(&["reportingController"], "kube-apiserver");
        event.set(&["reportingInstance"], "kube-apiserver");
        event.set(&["reason"], finding.reason);
        event.set(&["action"], finding.action);
        event.set(&["note"], finding.note.as_str());
        let group = if finding.kind == "Service" { "v1" } else { "networking.k8s.io/v1" };
        event.set(&["regarding", "apiVersion"], group);
        event.set(&["regarding", "kind"], finding.kind);
        event.set(&["regarding", "name"], finding.name.as_str());
        if !finding.namespace.is_empty() {
            event.set(&["regarding", "namespace"], finding.namespace.as_str());
        }
        if let Err(failure) = self.create(&EVENTS, &event, "").await {
            tracing::debug!(err = %failure, "cannot record event");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let services = Kind { group: "", version: "v1", resource: "services", kind: "Service" };
        assert_eq!(services.path("default", "kubernetes"), "/api/v1/namespaces/default/services/kubernetes");
        assert_eq!(EVENTS.path("n", ""), "/apis/events.k8s.io/v1/namespaces/n/events");
        assert_eq!(services.named("n", "s").str_at(&["apiVersion"]), Some("v1"));
    }
}
