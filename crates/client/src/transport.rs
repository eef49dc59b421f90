//! Transports: requests reach a server over the network, or as a call within the process.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Str, Value, json};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};

use crate::{Error, Kind};

/// A connection to one server as one user.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads the whole response.
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>>;

    /// Watches a collection. Within a process the events share the server's own bytes.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>>;
}

pub type EventStream = BoxStream<'static, Result<WatchEvent, Error>>;

/// A collection to watch, and from where.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    pub kind: Kind,
    /// The namespace; all if empty.
    pub namespace: Str,
    /// The resource version to start after; if empty, the initial state comes first.
    pub after: String,
    pub agent: Str,
}

/// The object of a watch event: its JSON text, and the parsed tree if there is one already.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub text: Bytes,
    pub tree: Option<Arc<Value>>,
}

impl Seen {
    pub fn tree(&self) -> Result<Arc<Value>, json::ParseError> {
        match &self.tree {
            Some(tree) => Ok(tree.clone()),
            None => json::parse(&self.text).map(Arc::new),
        }
    }
}

impl From<Bytes> for Seen {
    fn from(text: Bytes) -> Seen {
        Seen { text, tree: None }
    }
}

/// One watch event.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// The object was added or modified.
    Present(Seen),
    /// The object was deleted at this revision; its last state.
    Deleted { last: Seen, revision: u64 },
    /// All events up to this version have been sent.
    Bookmark { version: String, ends_initial: bool },
}
