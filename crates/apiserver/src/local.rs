//! The in-process transport: clients in the same process call the server as a function.
//!
//! A request takes the same path as one from the network (authentication, authorization, admission), without sockets. A
//! watch returns the bytes that the server keeps, without a copy.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::Status;
use corten_api::selector::FieldSelector;
use corten_auth::{AUTHENTICATED, Attributes, Decision, User};
use corten_client::{Error, EventStream, Seen, Transport, WatchEvent, WatchRequest};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};

use crate::authentication::Peer;
use crate::cache::{Change, Event, InProcessWatcher};
use crate::catalog::Served;
use crate::filter::Filter;
use crate::object::Object;
use crate::watcher::Watcher;
use crate::{Running, Server, aggregation, authorization, respond};

/// The size limit of an aggregated server's response.
const FOREIGN_RESPONSE: usize = 256 * 1024 * 1024;

/// The in-process transport of one user.
#[derive(Clone)]
struct Local {
    server: Arc<Server>,
    user: Arc<User>,
}

/// A handle to a server in this process, which makes transports to it.
#[derive(Clone)]
pub struct Handle {
    server: Arc<Server>,
}

impl Running {
    pub fn handle(&self) -> Handle {
        Handle { server: self.server.clone() }
    }

    /// A transport to this server for a client in the same process, with an identity.
    pub fn transport(&self, name: &str, groups: &[&str]) -> Arc<dyn Transport> {
        self.handle().transport(name, groups)
    }
}

impl Handle {
    /// A transport to the server with an identity.
    pub fn transport(&self, name: &str, groups: &[&str]) -> Arc<dyn Transport> {
        let groups = groups.iter().copied().chain([AUTHENTICATED]).map(str::to_owned).collect();
        let user = Arc::new(User { name: name.to_owned(), groups, ..User::default() });
        Arc::new(Local { server: self.server.clone(), user })
    }
}

impl Transport for Local {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let local = self.clone();
        Box::pin(async move {
            let peer = Peer::InProcess(local.user.clone());
            let is_own = local.server.backend.aggregation.find(request.uri().path()).is_none();
            let response = local.server.handle(request.map(Full::new), &peer).await;
            let (parts, body) = response.into_parts();
            let body = match is_own {
                true => body.collect().await.map_err(Error::transport)?.to_bytes(),
                // Another server may never end its response.
                false => {
                    Limited::new(body, FOREIGN_RESPONSE).collect().await.map_err(Error::transport)?.to_bytes()
                }
            };
            Ok(Response::from_parts(parts, body))
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let local = self.clone();
        Box::pin(async move {
            let kind = &request.kind;
            if local.server.backend.aggregation.serves(&kind.group, &kind.version) {
                return aggregation::watch_events(&local.server, &local.user, &request).await;
            }
            Ok(local.watch_events(&request)?)
        })
    }
}

impl Local {
    /// Authorizes a watch and starts it.
    fn watch_events(&self, request: &WatchRequest) -> Result<EventStream, Status> {
        let backend = &self.server.backend;
        let kind = &request.kind;
        let selector = FieldSelector::parse(&kind.fields).map_err(|e| Status::bad_request(e.to_string()))?;
        let attributes = Attributes {
            user: &self.user,
            verb: "watch",
            namespace: &request.namespace,
            group: &kind.group,
            version: &kind.version,
            resource: &kind.plural,
            subresource: "",
            name: name_in(&selector),
            path: None,
            field_selector: (!kind.fields.is_empty()).then_some(&selector),
            label_selector: None,
        };
        if let Decision::Deny(why) | Decision::NoOpinion(why) = authorization::authorize(backend, &attributes)
        {
            return Err(Status::forbidden(&kind.group, &kind.plural, "", why));
        }
        let served =
            backend.catalog.get(&kind.group, &kind.version, &kind.plural).ok_or_else(Status::unknown_path)?;
        let cache = served.cache.clone().ok_or_else(Status::method_not_allowed)?;
        cache.check_complete()?;
        let filter = Filter::new(&served, &request.namespace, "", &kind.fields)?;
        let mut stream = WatchStream {
            _counted: cache.count_in_process_watcher(),
            watcher: Watcher::new(cache, filter, self.server.stop.clone()),
            ready: VecDeque::new(),
            served,
        };
        match request.after.parse() {
            Ok(revision) => stream.watcher.start_after(revision),
            Err(_) => stream.begin_with_state()?,
        }
        let events = stream::unfold(stream, async |mut stream| {
            let event = stream.next().await?;
            Some((event.map_err(Error::from), stream))
        });
        Ok(events.boxed())
    }
}

/// The name in the field selector `metadata.name=…`, which authorization treats as the request's name.
fn name_in(selector: &FieldSelector) -> &str {
    let named = selector.requirements().iter().find(|r| r.equal && r.field == "metadata.name");
    named.map_or("", |requirement| requirement.value.as_str())
}

/// The stream of one in-process watch.
struct WatchStream {
    _counted: InProcessWatcher,
    watcher: Watcher,
    served: Arc<Served>,
    ready: VecDeque<WatchEvent>,
}

impl WatchStream {
    /// Begins with all objects that match and the bookmark that ends them.
    fn begin_with_state(&mut self) -> Result<(), Status> {
        let snapshot = self.watcher.snapshot()?;
        self.ready =
            snapshot.objects.iter().map(|object| WatchEvent::Present(seen(&self.served, object))).collect();
        let version = snapshot.revision.to_string();
        self.ready.push_back(WatchEvent::Bookmark { version, ends_initial: true });
        Ok(())
    }

    /// The next event; `None` once the server stops.
    async fn next(&mut self) -> Option<Result<WatchEvent, Status>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Err(status) = self.read_events().await {
                return Some(Err(status));
            }
            if self.ready.is_empty() && !self.watcher.changed().await {
                return None;
            }
        }
    }

    async fn read_events(&mut self) -> Result<(), Status> {
        let (served, ready) = (&self.served, &mut self.ready);
        let take = |event: &Arc<Event>, change| {
            let seen = seen(served, event.object(change));
            ready.push_back(match change {
                Change::Added | Change::Modified => WatchEvent::Present(seen),
                Change::Deleted => WatchEvent::Deleted { last: seen, revision: event.revision },
            });
            ControlFlow::Continue(())
        };
        self.watcher.read_events(take).await
    }
}

/// An object in the requested version: nearly always the stored bytes themselves.
fn seen(served: &Served, stored: &Object) -> Seen {
    if served.is_stored_form && !stored.is_foreign {
        return Seen { text: stored.json.clone(), tree: stored.written_tree.get() };
    }
    match respond::shown_tree(served, &stored.json) {
        Ok(tree) => {
            Seen { text: corten_api::json::write_to_string(&tree).into(), tree: Some(Arc::new(tree)) }
        }
        Err(_) => stored.json.clone().into(),
    }
}
