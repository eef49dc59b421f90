//! The server as a function: what parts of the same process speak to it through. The same way as every other
//! request takes, without sockets; a watch hands over the very bytes that the server keeps.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::Status;
use corten_api::selector::FieldSelector;
use corten_auth::{AUTHENTICATED, Attributes, Decision, User};
use corten_client::{Error, EventStream, Seen, Transport, WatchEvent, WatchRequest};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;

use crate::authentication::Peer;
use crate::cache::{Cache, Change, Follower};
use crate::catalog::Served;
use crate::filter::Filter;
use crate::object::Object;
use crate::{Running, Server, authorization, respond};

/// Events taken from a cache in one go.
const BATCH: usize = 256;

/// A way to the server with one identity.
#[derive(Clone)]
struct Local {
    server: Arc<Server>,
    user: Arc<User>,
}

/// What can be asked for ways to a server of this process.
#[derive(Clone)]
pub struct Handle {
    server: Arc<Server>,
}

impl Running {
    pub fn handle(&self) -> Handle {
        Handle { server: self.server.clone() }
    }

    /// A way to this server for a part of the same process.
    pub fn transport(&self, name: &str, groups: &[&str]) -> Arc<dyn Transport> {
        self.handle().transport(name, groups)
    }
}

impl Handle {
    /// A way to the server in an identity.
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
            let peer = Peer::Known(local.user.clone());
            let answer = local.server.handle_local(request.map(Full::new), &peer).await;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(Error::transport)?.to_bytes();
            Ok(Response::from_parts(parts, body))
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let local = self.clone();
        Box::pin(async move { Ok(local.follow(&request)?) })
    }
}

impl Local {
    fn follow(&self, request: &WatchRequest) -> Result<EventStream, Status> {
        let backend = &self.server.backend;
        let kind = &request.kind;
        let selector = FieldSelector::parse(&kind.fields).map_err(|e| Status::bad_request(e.to_string()))?;
        let asked = Attributes {
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
        if let Decision::Deny(why) | Decision::NoOpinion(why) = authorization::authorize(backend, &asked) {
            return Err(Status::forbidden(&kind.group, &kind.plural, "", why));
        }
        let served =
            backend.catalog.get(&kind.group, &kind.version, &kind.plural).ok_or_else(Status::unknown_path)?;
        let cache = served.cache.clone().ok_or_else(Status::method_not_allowed)?;
        let mut watcher = Watcher {
            _following: cache.follower(),
            progress: cache.progress(),
            stop: self.server.stop.clone(),
            filter: Filter::new(&served, &request.namespace, "", &kind.fields)?,
            cursor: 0,
            ready: VecDeque::new(),
            served,
            cache,
        };
        match request.after.parse() {
            Ok(revision) => watcher.cursor = revision,
            Err(_) => watcher.begin(),
        }
        watcher.progress.mark_changed();
        let events = stream::unfold(watcher, async |mut watcher| {
            let event = watcher.next().await?;
            Some((event.map_err(Error::from), watcher))
        });
        Ok(events.boxed())
    }
}

/// A request for the one object of a name names it, however it says so.
fn name_in(selector: &FieldSelector) -> &str {
    let named = selector.requirements().iter().find(|r| r.equal && r.field == "metadata.name");
    named.map_or("", |requirement| requirement.value.as_str())
}

struct Watcher {
    _following: Follower,
    served: Arc<Served>,
    cache: Arc<Cache>,
    progress: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    filter: Filter,
    /// Everything up to here has been taken.
    cursor: u64,
    ready: VecDeque<WatchEvent>,
}

impl Watcher {
    /// Starts with everything there is.
    fn begin(&mut self) {
        let snapshot = self.cache.snapshot(&self.filter.namespace, None);
        self.cursor = snapshot.revision;
        let wanted = snapshot.objects.iter().filter(|object| self.filter.matches(object));
        self.ready = wanted.map(|object| WatchEvent::Present(self.seen(object))).collect();
        let version = snapshot.revision.to_string();
        self.ready.push_back(WatchEvent::Bookmark { version, ends_initial: true });
    }

    /// The next event; `None` once the server stops.
    async fn next(&mut self) -> Option<Result<WatchEvent, Status>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Err(status) = self.take().await {
                return Some(Err(status));
            }
            if self.ready.is_empty() {
                tokio::select! {
                    changed = self.progress.changed() => changed.ok()?,
                    () = crate::listen::stopped(&mut self.stop) => return None,
                }
            }
        }
    }

    /// Takes the changes after the cursor.
    async fn take(&mut self) -> Result<(), Status> {
        self.progress.mark_unchanged();
        let (events, reached) = self.cache.follow(self.cursor, BATCH).await?;
        for event in &events {
            let Some(change) = event.seen_through(|object| self.filter.matches(object)) else { continue };
            let seen = self.seen(event.object(change));
            self.ready.push_back(match change {
                Change::Added | Change::Modified => WatchEvent::Present(seen),
                Change::Deleted => WatchEvent::Deleted { last: seen, revision: event.revision },
            });
        }
        if events.len() >= BATCH {
            self.progress.mark_changed();
        }
        self.cursor = self.cursor.max(reached);
        Ok(())
    }

    /// An object in the version it was asked for in: nearly always the stored bytes themselves.
    fn seen(&self, stored: &Object) -> Seen {
        if self.served.is_stored_form {
            return Seen { text: stored.json.clone(), tree: stored.recent() };
        }
        match respond::served_tree(&self.served, &stored.json) {
            Ok(tree) => {
                Seen { text: corten_api::json::write_to_string(&tree).into(), tree: Some(Arc::new(tree)) }
            }
            Err(_) => stored.json.clone().into(),
        }
    }
}
