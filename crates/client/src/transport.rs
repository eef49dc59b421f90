//! How requests reach a server: over the network, or as a call within the process.

use bytes::Bytes;
use corten_api::Str;
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

/// One change. Objects are their JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// It is there, in this state.
    Present(Bytes),
    /// It is gone; this was its last state.
    Deleted(Bytes),
    /// Everything up to this version has been sent.
    Bookmark { version: String, ends_initial: bool },
}
