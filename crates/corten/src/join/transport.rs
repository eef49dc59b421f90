//! A transport whose client certificate can be replaced: later requests use the new one.

use std::sync::{Arc, RwLock};

use corten_client::{Error, EventStream, Remote, Transport, WatchRequest};
use http::{Request, Response};
use hyper::body::Bytes;

type Answer<T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

#[derive(Clone)]
pub(crate) struct Renewable(Arc<RwLock<Remote>>);

impl Renewable {
    pub(crate) fn new(remote: Remote) -> Renewable {
        Renewable(Arc::new(RwLock::new(remote)))
    }

    pub(crate) fn replace(&self, remote: Remote) {
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = remote;
    }

    fn current(&self) -> Remote {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

impl Transport for Renewable {
    fn call(&self, request: Request<Bytes>) -> Answer<Response<Bytes>> {
        self.current().call(request)
    }

    fn watch(&self, request: WatchRequest) -> Answer<EventStream> {
        self.current().watch(request)
    }
}
