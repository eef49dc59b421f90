//! The path of every request: authenticate, authorize, read the body, dispatch to a verb or an endpoint, respond.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corten_api::Status;
use corten_auth::User;
use futures_util::FutureExt;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use hyper::body::Body;

use crate::admission::AuditAnnotations;
use crate::authentication::Peer;
use crate::authorization;
use crate::call::{Backend, Call};
use crate::catalog::Served;
use crate::metrics::RequestKey;
use crate::negotiate::{Format, Forms, View, Wanted};
use crate::request::{self, Query, RequestInfo, ResourcePath};
use crate::respond::{self, Answer};
use crate::verbs::{delete, list, patch, subresource, watch, write};
use crate::{
    Server, aggregation, compress, connect, endpoints, heavy, in_flight, pre_release, random, warnings,
    websocket,
};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

impl Server {
    /// Handles one request, from the network or from within this process; never fails, never panics.
    pub(crate) async fn handle<B>(self: &Arc<Self>, request: Request<B>, peer: &Peer) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let started = Instant::now();
        let mut key = RequestKey { verb: "GET", ..RequestKey::default() };
        let mut warning = None;
        let answering = self.answer(&parts, body, peer, &mut key, &mut warning);
        let outcome = AssertUnwindSafe(answering).catch_unwind().await;
        let mut answer = match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => refuse(&parts, &status),
            Err(_) => {
                self.metrics.panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(path = parts.uri.path(), "request handler panicked");
                refuse(&parts, &Status::internal("the request could not be handled"))
            }
        };
        warnings::add(answer.headers_mut(), warning.as_slice());
        if let Ok(id) = HeaderValue::from_str(&random::uuid()) {
            answer.headers_mut().insert(AUDIT_ID, id);
        }
        if self.health.is_stopping() {
            answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        let verb = key.verb;
        self.metrics.count(key, answer.status().as_u16(), started.elapsed());
        compress::compress(&parts.headers, verb, answer)
    }

    async fn answer<B>(
        self: &Arc<Self>,
        parts: &Parts,
        body: B,
        peer: &Peer,
        key: &mut RequestKey,
        warning: &mut Option<&'static str>,
    ) -> Result<Answer, Status>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.health.is_stopping() && !matches!(parts.uri.path(), "/readyz" | "/livez" | "/healthz") {
            return Err(Status::too_many_requests(
                "The apiserver is shutting down, please try again later.",
                1,
            ));
        }
        let received = Instant::now();
        let query = Query::parse(parts.uri.query());
        let path = parts.uri.path();
        let info = request::parse(&parts.method, path, query.flag("watch"))?;
        let is_long_running = in_flight::is_long_running(&info);
        let most = self.backend.limits.request_timeout;
        let limit = if is_long_running { most } else { timeout(&query, most)? };
        let deadline = (!is_long_running).then(|| tokio::time::Instant::from_std(received + limit));
        let Backend { authentication, authorizer, catalog, clock, .. } = &*self.backend;
        let user;
        (user, *warning) = authentication.authenticate(catalog, peer, &parts.headers, path, clock.now());
        let user = authorization::effective_user(authorizer, user?, &parts.headers, &info, &query)?;
        let aggregated = self.backend.aggregation.find(&info.path);
        let waits =
            aggregated.is_none() && info.resource.is_some() && !is_long_running && !body.is_end_stream();
        let body = if waits {
            // The body of a request that is not authorized is not read, and a request counts as in flight only with its body.
            authorization::authorize_request(authorizer, &user, &info, &query)?;
            match self.readers.read(&user, &parts.headers, body, limit).await? {
                Some(bytes) => RequestBody::Read(bytes),
                None => return Ok(too_many()),
            }
        } else {
            RequestBody::Coming(body)
        };
        let Ok(_place) = self.lanes.enter(&user, &info) else { return Ok(too_many()) };
        if !waits {
            authorization::authorize_request(authorizer, &user, &info, &query)?;
        }
        if let Some(aggregated) = aggregated
            && let RequestBody::Coming(body) = body
        {
            return Box::pin(aggregation::forward(&self.backend, &aggregated, parts, &info, &user, body))
                .await;
        }
        if endpoints::is_health(&info.path) {
            self.health.check(path).await;
        }
        match info.resource.clone() {
            None if endpoints::is_large(&info.path) => {
                let (server, method, headers) = (self.clone(), parts.method.clone(), parts.headers.clone());
                let path = info.path.clone();
                let make = move || endpoints::answer(&server, &method, &path, &query, &headers);
                heavy::apart(&user.name, make).await
            }
            None => endpoints::answer(self, &parts.method, &info.path, &query, &parts.headers),
            Some(at) => self.resource(parts, body, query, info, at, user, deadline, key).await,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a request is whole")]
    async fn resource<B>(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody<B>,
        query: Query,
        info: RequestInfo,
        at: ResourcePath,
        user: Arc<User>,
        deadline: Option<tokio::time::Instant>,
        key: &mut RequestKey,
    ) -> Result<Answer, Status>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if parts.method == Method::HEAD && at.subresource != "proxy" {
            return Err(Status::method_not_allowed());
        }
        let catalog = &self.backend.catalog;
        let mut found = catalog.get(&at.group, &at.version, &at.resource);
        if found.is_none() && self.backend.store.is_shared() && !catalog.has_built_in_group(&at.group) {
            // Another server may have established the definition a moment ago.
            self.backend.store.catch_up().await.map_err(write::store_failure)?;
            found = catalog.get(&at.group, &at.version, &at.resource);
        }
        let served = match found {
            Some(_) if self.backend.aggregation.hides(&at.group, &at.version) => {
                return Err(Status::unknown_path());
            }
            Some(served) if !info.path.starts_with("//") && is_custom_path(&served, &info, &at) => served,
            None if catalog.has_built_in_group(&at.group) => return Err(Status::unknown_path()),
            _ => return Ok(respond::text(404, "404 page not found\n")),
        };
        *key = metric_key(&served, &info, &at);
        let mut call = Call {
            backend: self.backend.clone(),
            served,
            at,
            query,
            headers: self.backend.authentication.without_credentials(&parts.headers),
            body: Bytes::new(),
            user,
            now: self.backend.clock.now(),
            deadline,
            warnings: Vec::new(),
            audit_annotations: AuditAnnotations::default(),
            schema: OnceLock::new(),
        };
        if info.verb == "proxy" || (!call.at.rest.is_empty() && call.at.subresource != "proxy") {
            return Err(Status::unknown_path());
        }
        let nothing =
            info.verb.is_empty() && !connect::is_proxied_method(&call.at.subresource, &parts.method);
        if nothing && call.served.custom().is_some() {
            let (group, resource) = (call.served.group(), call.served.name());
            return Err(Status::method_not_supported(group, resource, info.verb));
        }
        if nothing || (info.verb_in_path && parts.method != Method::GET) {
            return Err(Status::method_not_allowed());
        }
        check_scope(&call, info.verb)?;
        if info.verb == "watch" {
            if !call.served.resource.has_verb("watch") {
                require_verb(&call, "list")?;
                let (group, resource) = (call.served.group(), call.served.name());
                return Err(Status::method_not_supported(group, resource, "watch"));
            }
            let outcome = watch::watch(&call, self.stop.clone()).await;
            let warnings: Vec<String> = match &outcome {
                Err(status) if is_refused_by_route(status) && call.served.custom().is_none() => Vec::new(),
                _ => deprecation(&call).map(Cow::into_owned).into_iter().collect(),
            };
            let mut answer = match outcome {
                Ok(answer) => websocket::watch(counted(answer, self.clone()), parts, &call.headers)?,
                Err(status) => refuse(parts, &status),
            };
            warnings::add(answer.headers_mut(), &warnings);
            return Ok(answer);
        }
        call.body = match body {
            RequestBody::Coming(body) if connect::is_proxied(&call.at.subresource) => {
                // On the heap: requests that are not proxied do not need the memory.
                let outcome = Box::pin(connect::call(&mut call, parts, info.verb, body)).await;
                let mut answer = outcome.unwrap_or_else(|status| refuse(parts, &status));
                warnings::add(answer.headers_mut(), &call.warnings);
                return Ok(answer);
            }
            RequestBody::Coming(_) => Bytes::new(),
            RequestBody::Read(bytes) => bytes,
        };
        let work = async {
            let (mut call, outcome) = Box::pin(heavy::answer(call, info.verb)).await;
            // Warnings are sent with errors too, that of the resource before those of the object.
            let refused = outcome.as_ref().is_err_and(is_refused_by_route) && call.served.custom().is_none();
            if let Some(deprecated) = deprecation(&call).filter(|_| !refused).map(Cow::into_owned) {
                call.warnings.insert(0, deprecated);
            }
            let mut answer = outcome.unwrap_or_else(|status| refuse(parts, &status));
            warnings::add(answer.headers_mut(), &call.warnings);
            Ok(answer)
        };
        with_deadline(deadline, work).await
    }
}

/// The body of a request: read, or to be streamed to a backend.
enum RequestBody<B> {
    Read(Bytes),
    Coming(B),
}

/// The error response in the client's format.
fn refuse(parts: &Parts, status: &Status) -> Answer {
    respond::status(status, error_format(&parts.headers, parts.uri.query()))
}

async fn with_deadline(
    deadline: Option<tokio::time::Instant>,
    work: impl Future<Output = Result<Answer, Status>>,
) -> Result<Answer, Status> {
    let Some(deadline) = deadline else { return work.await };
    match tokio::time::timeout_at(deadline, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0)),
    }
}

/// The response to a request beyond the limit, as upstream words it.
fn too_many() -> Answer {
    let mut answer = respond::text(429, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// The `timeout` parameter, in Go's notation, capped at the server's request timeout.
fn timeout(query: &Query, most: Duration) -> Result<Duration, Status> {
    let text = query.text("timeout");
    if matches!(text, "" | "0") {
        return Ok(most);
    }
    let seconds = corten_api::time::go_duration(text).map_err(|why| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    Ok(match Duration::try_from_secs_f64(seconds) {
        Ok(asked) if !asked.is_zero() => asked.min(most),
        _ => most,
    })
}

/// False if a path does not fit the scope of a custom resource: such paths do not exist.
fn is_custom_path(served: &Served, info: &RequestInfo, at: &ResourcePath) -> bool {
    let across = matches!(info.verb, "list" | "watch") && at.name.is_empty();
    served.custom().is_none()
        || served.resource.namespaced != at.namespace.is_empty()
        || (served.resource.namespaced && across)
}

/// Checks that a path fits the method and the resource's scope.
fn check_scope(call: &Call, verb: &str) -> Result<(), Status> {
    let at = &call.at;
    // Reviews and bindings are only created: there are no paths of single ones.
    if !at.name.is_empty() && !call.served.resource.has_verb("get") && call.served.custom().is_none() {
        return Err(Status::unknown_path());
    }
    let mismatch = match verb {
        "create" => !at.name.is_empty() && at.subresource.is_empty() && call.served.custom().is_none(),
        "update" | "patch" => at.name.is_empty(),
        _ => false,
    };
    let across = call.served.resource.namespaced && at.namespace.is_empty() && at.name.is_empty();
    if mismatch || (across && matches!(verb, "create" | "deletecollection")) {
        return Err(Status::method_not_allowed());
    }
    check_name(&at.name)?;
    let resource = &call.served.resource;
    let in_namespace = !call.at.namespace.is_empty();
    let fits = if resource.namespaced {
        in_namespace || (call.at.name.is_empty() && matches!(verb, "list" | "watch" | "deletecollection"))
    } else {
        !in_namespace || call.served.is_namespaces()
    };
    if fits { Ok(()) } else { Err(Status::unknown_path()) }
}

/// Refuses a name that cannot be part of a path.
pub(crate) fn check_name(name: &str) -> Result<(), Status> {
    match corten_api::names::path_segment_name(name).first() {
        Some(why) if !name.is_empty() => {
            Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
        }
        _ => Ok(()),
    }
}

fn require_verb(call: &Call, verb: &str) -> Result<(), Status> {
    if call.served.resource.has_verb(verb) { Ok(()) } else { Err(Status::method_not_allowed()) }
}

pub(crate) async fn dispatch(call: &mut Call, verb: &'static str) -> Result<Answer, Status> {
    let served = call.served.clone();
    if !call.at.subresource.is_empty() {
        let found = served.resource.subresource(&call.at.subresource);
        let found = found.ok_or_else(|| match served.custom() {
            Some(_) => call.not_found(),
            None => Status::unknown_path(),
        })?;
        if !found.verbs.contains(&verb) {
            return Err(Status::method_not_allowed());
        }
        catch_up(call, verb).await?;
        return subresource::call(call, verb, found).await;
    }
    require_verb(call, verb)?;
    catch_up(call, verb).await?;
    if served.cache.is_none() {
        return crate::virtual_resources::answer(call, verb).await;
    }
    match verb {
        "get" => list::get(call).await,
        "list" => list::list(call).await,
        "create" => write::create(call).await,
        "update" => write::update(call, "").await,
        "patch" => patch::patch(call, "").await,
        "delete" => delete::delete(call).await,
        "deletecollection" => delete::delete_collection(call).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Waits until the caches are as new as the store, if the request is about the newest state: other servers may have changed
/// it. A create finds out when it is committed.
async fn catch_up(call: &Call, verb: &str) -> Result<(), Status> {
    let Some(cache) = &call.served.cache else { return Ok(()) };
    let is_new_object = verb == "create" && call.at.subresource.is_empty();
    if is_new_object && is_in_new_namespace(call) {
        return call.backend.store.catch_up().await.map_err(write::store_failure);
    }
    let is_read = matches!(verb, "get" | "list") && call.at.subresource.is_empty();
    if is_new_object || (is_read && !list::wants_newest(call.query.text("resourceVersion"), cache)) {
        return Ok(());
    }
    call.backend.store.catch_up().await.map_err(write::store_failure)
}

/// True if an object's namespace is not known here: another server may have created it a moment ago.
fn is_in_new_namespace(call: &Call) -> bool {
    let namespace = call.at.namespace.as_str();
    let is_known = || {
        call.backend.catalog.cache("", "namespaces").is_some_and(|cache| cache.get("", namespace).is_some())
    };
    call.backend.store.is_shared() && !namespace.is_empty() && !is_known()
}

/// The format of errors: the client's, if it can encode them.
fn error_format(headers: &HeaderMap, query: Option<&str>) -> Wanted {
    let query = Query::parse(query);
    let pretty = query.get("pretty");
    let of = |list| crate::negotiate::wanted(headers, pretty, list, Forms::ALL);
    let wanted = of(false).or_else(|_| of(true));
    match wanted {
        Ok(wanted) if wanted.view != View::Object => {
            Wanted { format: Format::Json, view: View::Object, ..wanted }
        }
        Ok(wanted) => wanted,
        Err(_) => Wanted { format: Format::Json, view: View::Object, pretty: false },
    }
}

/// True for errors of requests that upstream's router does not pass on: unknown paths, methods and media types.
fn is_refused_by_route(status: &Status) -> bool {
    match status.code {
        405 => true,
        406 | 415 => status.message.starts_with(&format!("{}: ", status.code)),
        404 => status.message == Status::unknown_path().message,
        _ => false,
    }
}

/// The deprecation warning of a resource.
fn deprecation(call: &Call) -> Option<Cow<'_, str>> {
    match (call.served.group(), call.served.name()) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+".into()),
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into())
        }
        _ => match call.served.custom() {
            Some(version) => version.deprecation_warning().map(Cow::Borrowed),
            None => pre_release::deprecation(&call.served.api_version, call.served.kind()).map(Cow::Owned),
        },
    }
}

fn metric_key(served: &Served, info: &RequestInfo, at: &ResourcePath) -> RequestKey {
    let verb = match info.verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    };
    let scope = match (at.name.is_empty(), at.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    let resource = &served.resource;
    let subresource = resource.subresource(&at.subresource).map(|s| s.name.clone()).unwrap_or_default();
    RequestKey {
        verb,
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.name.clone(),
        subresource,
        scope,
    }
}

/// Counts a watch for as long as its stream lives.
fn counted(answer: Answer, server: Arc<Server>) -> Answer {
    struct Open(Arc<Server>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.metrics.watches.fetch_sub(1, Ordering::Relaxed);
        }
    }
    server.metrics.watches.fetch_add(1, Ordering::Relaxed);
    let open = Open(server);
    answer.map(|body| match body {
        crate::body::ResponseBody::Stream(mut stream) => {
            crate::body::ResponseBody::Stream(Box::pin(futures_util::stream::poll_fn(move |context| {
                let _held = &open;
                stream.as_mut().poll_next(context)
            })))
        }
        body => body,
    })
}
