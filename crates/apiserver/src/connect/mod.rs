//! Requests that are answered elsewhere: by a node's kubelet (logs, exec, attach, port-forward), or by whatever a pod,
//! a service or a node serves (proxies).
//!
//! What is asked is looked at here only as far as it takes to find who answers; bytes pass as they come, both ways, but
//! for links in proxied pages.

mod address;
mod backend;
mod container;
mod forward;
mod kubelet;
mod links;
mod log;
mod proxy;
mod session;

use bytes::Bytes;
use corten_api::{Status, Value};
use corten_auth::Attributes;
use http::Method;
use http::request::Parts;
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::authorization;
use crate::call::Call;
use crate::respond::Answer;
use crate::websocket;

pub(crate) use backend::Backend as Peer;
pub(crate) use kubelet::Kubelets;
pub use kubelet::TlsError;

use forward::Sent;

/// Whether a subresource is answered elsewhere.
pub(crate) fn is_elsewhere(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Whether a method that is no verb here is one for whoever answers.
pub(crate) fn is_only_passed_on(subresource: &str, method: &Method) -> bool {
    subresource == "proxy" && *method == Method::OPTIONS
}

/// Passes a request on to where it is answered.
pub(crate) async fn call<B>(call: &Call, parts: &Parts, verb: &str, body: B) -> Result<Answer, Status>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let subresource = &*call.at.subresource;
    let found = call.served.resource.subresource(subresource).ok_or_else(Status::unknown_path)?;
    if !found.verbs.contains(&verb) && !is_only_passed_on(subresource, &parts.method) {
        return Err(Status::method_not_allowed());
    }
    if matches!(subresource, "exec" | "attach" | "portforward") {
        may_create(call)?;
    }
    match subresource {
        "log" => websocket::log(log::answer(call).await?, parts, &call.headers),
        "proxy" => proxy::answer(call, Sent::new(parts, &call.headers, body.map_err(Into::into))).await,
        _ => session::answer(call, parts).await,
    }
}

/// A session changes what runs, also if it is asked for by a `get`, as clients of WebSockets have to.
fn may_create(call: &Call) -> Result<(), Status> {
    let at = &call.at;
    let asked = Attributes {
        namespace: &at.namespace,
        version: &at.version,
        subresource: &at.subresource,
        name: &at.name,
        ..Attributes::resource(&call.user, "create", &at.group, &at.resource)
    };
    authorization::require(&call.backend.authorizer, &asked)
}

/// The object a request is about, under its own name or a part of it.
fn object(call: &Call, name: &str) -> Result<Value, Status> {
    let cache = call.served.cache.as_ref().ok_or_else(Status::method_not_allowed)?;
    let found = cache.get(&call.at.namespace, name);
    let missing = || Status::not_found(call.served.group(), call.served.name(), name);
    found.map(|object| object.tree()).ok_or_else(missing)
}
