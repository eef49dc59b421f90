//! Proxied requests: to a node's kubelet (logs, exec, attach, port-forward), or to a server in a pod, behind a service or on
//! a node (proxy subresources).
//!
//! A request is parsed only as far as it takes to find its backend; bytes pass unchanged in both directions, except links in
//! proxied HTML pages.

mod address;
mod backend;
mod container;
mod deadline;
mod forward;
mod kubelet;
pub(crate) mod links;
mod log;
mod proxy;
mod session;

use bytes::Bytes;
use corten_api::{Status, Value};
use http::Method;
use http::request::Parts;
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::admission;
use crate::call::Call;
use crate::respond::Answer;
use crate::verbs::write::may_create;
use crate::websocket;

pub(crate) use address::is_proxyable;
pub(crate) use backend::{Failure, Outgoing, ProxyBackend, io_error_message};
pub(crate) use deadline::Deadline;

pub(crate) use forward::{Sent, remove_hops, streamed};
pub(crate) use kubelet::Kubelets;
pub use kubelet::TlsError;
pub(crate) use proxy::service_endpoints;

/// True if requests for a subresource are proxied.
pub(crate) fn is_proxied(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// True if a method that is not a verb of this server is proxied all the same.
pub(crate) fn is_proxied_method(subresource: &str, method: &Method) -> bool {
    subresource == "proxy" && *method == Method::OPTIONS
}

/// Proxies a request to its backend.
pub(crate) async fn call<B>(call: &mut Call, parts: &Parts, verb: &str, body: B) -> Result<Answer, Status>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let subresource = call.at.subresource.clone();
    let subresource = &*subresource;
    let found = call.served.resource.subresource(subresource).ok_or_else(Status::unknown_path)?;
    if !found.verbs.contains(&verb) && !is_proxied_method(subresource, &parts.method) {
        return Err(Status::method_not_allowed());
    }
    if matches!(subresource, "exec" | "attach" | "portforward") {
        // A session changes the container's state, also if it is requested by a `get`, as WebSocket clients do.
        may_create(call)?;
    }
    let path = if subresource == "log" { None } else { admission::connect(call).await? };
    match subresource {
        "log" => websocket::log(log::answer(call).await?, parts, &call.headers),
        "proxy" => {
            let sent = Sent::new(parts, &call.headers, body.map_err(Into::into));
            proxy::answer(call, sent, path.as_deref()).await
        }
        _ => session::answer(call, parts).await,
    }
}

/// The object of a request by its name, which may be only a part of the name in the URL (`scheme:name:port`).
fn object(call: &Call, name: &str) -> Result<Value, Status> {
    let cache = call.served.cache.as_ref().ok_or_else(Status::method_not_allowed)?;
    let found = cache.get(&call.at.namespace, name);
    let missing = || Status::not_found(call.served.group(), call.served.name(), name);
    found.map(|object| object.tree()).ok_or_else(missing)
}
