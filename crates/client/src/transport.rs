//! How requests reach a server: over the network, or as a call within the process.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Str, Value, json};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::{Request, Response};

use crate::{Error, Kind};

/// A way to one server, with one identity.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads the whole answer.
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>>;

    /// Follows a collection. Within a process the events carry the server's own bytes.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>>;
}

pub type EventStream = BoxStream<'static, Result<WatchEvent, Error>>;

/// What to follow, and from where.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    pub kind: Kind,
    /// All if empty.
    pub namespace: Str,
    /// Go on after this version; if empty, begin with everything there is.
    pub after: String,
    pub agent: Str,
}

/// An object as an event brings it: its JSON text, and what it says if somebody has read it already.
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

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// It is there, in this state.
    Present(Seen),
    /// It is gone since this version; what it was.
    Deleted { last: Seen, revision: u64 },
    /// Everything up to this version has been sent.
    Bookmark { version: String, ends_initial: bool },
}
