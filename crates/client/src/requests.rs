//! The client: one function per verb. A request is sent once: callers retry.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Map, Status, Str, Value, json, meta};
use http::{Method, Request, header};

use crate::transport::{EventStream, Transport, WatchRequest};
use crate::{Error, Key, Kind};

/// A client that sends requests as one user, with one user agent.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    agent: Str,
    /// False to skip the body of successful responses.
    reads_responses: bool,
}

/// A partial change of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    /// Server-side apply by a field manager.
    Apply {
        manager: &'static str,
        force: bool,
        object: Value,
    },
}

impl Patch {
    fn content_type(&self) -> &'static str {
        match self {
            Patch::Json(_) => "application/json-patch+json",
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    fn body(&self) -> &Value {
        match self {
            Patch::Json(body) | Patch::Merge(body) | Patch::Strategic(body) => body,
            Patch::Apply { object, .. } => object,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    /// Precondition: the object has this UID.
    pub uid: Option<Str>,
    /// Precondition: the object has this resource version.
    pub resource_version: Option<Str>,
}

impl DeleteOptions {
    fn to_value(&self) -> Value {
        let mut options = Map::new();
        options.insert("kind", "DeleteOptions");
        options.insert("apiVersion", "v1");
        if let Some(seconds) = self.grace_seconds {
            options.insert("gracePeriodSeconds", seconds);
        }
        if let Some(propagation) = self.propagation {
            options.insert("propagationPolicy", format!("{propagation:?}"));
        }
        let mut only = Map::new();
        only.extend_some("uid", self.uid.as_ref());
        only.extend_some("resourceVersion", self.resource_version.as_ref());
        if !only.is_empty() {
            options.insert("preconditions", only);
        }
        Value::Object(options)
    }
}

/// Inserts optional values.
trait ExtendSome {
    fn extend_some(&mut self, key: &'static str, value: Option<&Str>);
}

impl ExtendSome for Map {
    fn extend_some(&mut self, key: &'static str, value: Option<&Str>) {
        if let Some(value) = value {
            self.insert(key, value.clone());
        }
    }
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, agent: impl Into<Str>) -> Client {
        Client { transport, agent: agent.into(), reads_responses: true }
    }

    /// The same client with another user agent.
    pub fn named(&self, agent: impl Into<Str>) -> Client {
        Client { agent: agent.into(), ..self.clone() }
    }

    /// The same client without response bodies: a successful request returns `null`. For callers that need only the outcome.
    #[must_use]
    pub fn without_answers(&self) -> Client {
        Client { reads_responses: false, ..self.clone() }
    }

    pub async fn get(&self, kind: &Kind, key: &Key) -> Result<Value, Error> {
        self.send(Method::GET, &kind.path(&key.namespace, &key.name, ""), None, "").await
    }

    pub async fn list(&self, kind: &Kind, namespace: &str) -> Result<Value, Error> {
        self.send(Method::GET, &kind.collection(namespace), None, "").await
    }

    pub async fn create(&self, kind: &Kind, object: &Value) -> Result<Value, Error> {
        let path = kind.collection(meta::namespace(object));
        self.send(Method::POST, &path, Some(object), "application/json").await
    }

    /// Creates a subresource: a binding, an eviction, a token request.
    pub async fn create_subresource(
        &self,
        kind: &Kind,
        key: &Key,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Error> {
        let path = kind.path(&key.namespace, &key.name, subresource);
        self.send(Method::POST, &path, Some(object), "application/json").await
    }

    /// Replaces an object, or one of its subresources.
    pub async fn update(&self, kind: &Kind, object: &Value, subresource: &str) -> Result<Value, Error> {
        let path = kind.path(meta::namespace(object), meta::name(object), subresource);
        self.send(Method::PUT, &path, Some(object), "application/json").await
    }

    pub async fn patch(
        &self,
        kind: &Kind,
        key: &Key,
        patch: &Patch,
        subresource: &str,
    ) -> Result<Value, Error> {
        let mut path = kind.path(&key.namespace, &key.name, subresource);
        if let Patch::Apply { manager, force, .. } = patch {
            path.push_str(&format!("?fieldManager={manager}&force={force}"));
        }
        self.send(Method::PATCH, &path, Some(patch.body()), patch.content_type()).await
    }

    pub async fn delete(&self, kind: &Kind, key: &Key, options: &DeleteOptions) -> Result<Value, Error> {
        let path = kind.path(&key.namespace, &key.name, "");
        self.send(Method::DELETE, &path, Some(&options.to_value()), "application/json").await
    }

    /// Reads any other path.
    pub async fn read(&self, path: &str) -> Result<Value, Error> {
        self.send(Method::GET, path, None, "").await
    }

    /// Creates an object at any other path.
    pub async fn create_at(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.send(Method::POST, path, Some(object), "application/json").await
    }

    /// Replaces the object at any other path.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.send(Method::PUT, path, Some(object), "application/json").await
    }

    /// Reads any other path in a representation other than plain JSON.
    pub async fn read_as(&self, path: &str, accept: &'static str) -> Result<Value, Error> {
        self.send_accepting(Method::GET, path, None, "", accept).await
    }

    /// Deletes all objects of a kind in a namespace.
    pub async fn delete_collection(&self, kind: &Kind, namespace: &str) -> Result<Value, Error> {
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        let path = kind.collection(namespace);
        self.send(Method::DELETE, &path, Some(&options.to_value()), "application/json").await
    }

    /// Watches all objects of a kind.
    pub async fn watch(&self, kind: &Kind, after: String) -> Result<EventStream, Error> {
        let (kind, namespace, agent) = (kind.clone(), kind.namespace.clone(), self.agent.clone());
        self.transport.watch(WatchRequest { kind, namespace, after, agent }).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<Value, Error> {
        self.send_accepting(method, path, body, content_type, "application/json").await
    }

    async fn send_accepting(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
        accept: &'static str,
    ) -> Result<Value, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, self.agent.as_str())
            .header(header::ACCEPT, accept);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let body = body.map(|value| Bytes::from(json::write_to_string(value))).unwrap_or_default();
        let request = request.body(body).map_err(Error::transport)?;
        let answer = self.transport.call(request).await?;
        let code = answer.status();
        if code.is_success() && !self.reads_responses {
            return Ok(Value::Null);
        }
        let value = json::parse(answer.body());
        if code.is_success() {
            return value.map_err(Error::transport);
        }
        match value {
            Ok(value) if meta::kind(&value) == "Status" => Err(Status::from_value(&value).into()),
            _ => Err(Error::transport(format!("{code}: {}", String::from_utf8_lossy(answer.body())))),
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use futures_util::future::BoxFuture;
    use http::Response;

    use super::*;
    use crate::kinds;

    /// A server that always sends the same response.
    struct Respond(u16, &'static str);

    impl Transport for Respond {
        fn call(&self, _: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
            let answer = Response::builder().status(self.0).body(Bytes::from_static(self.1.as_bytes()));
            Box::pin(async move { answer.map_err(Error::transport) })
        }

        fn watch(&self, _: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
            Box::pin(async { Err(Error::transport("nothing to see")) })
        }
    }

    #[tokio::test]
    async fn unused_response_bodies_are_not_parsed() {
        let key = Key::new("n", "p");
        let ask = async |code, text, reads| {
            let client = Client::new(Arc::new(Respond(code, text)), "test");
            let client = if reads { client } else { client.without_answers() };
            client.get(&kinds::PODS, &key).await
        };
        assert_eq!(ask(200, "{\"kind\":\"Pod\"}", true).await.unwrap(), value!({"kind": "Pod"}));
        assert_eq!(ask(200, "{\"kind\":\"Pod\"}", false).await.unwrap(), Value::Null);
        assert!(ask(200, "no", true).await.is_err());
        for reads in [true, false] {
            let missing = "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"code\":404}";
            assert!(ask(404, missing, reads).await.unwrap_err().is_not_found(), "{reads}");
        }
    }
}
