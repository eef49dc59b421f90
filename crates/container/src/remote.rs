//! The CRI over a socket: containerd, CRI-O, or anything else that serves it.
//!
//! One HTTP/2 connection carries every call; when it breaks, the next call opens a new one. Nothing is cached here:
//! every call goes to the runtime.

mod calls;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod images;
pub(crate) mod protobuf;
mod runtime;
mod types;

use std::path::PathBuf;

use tokio::sync::broadcast;

use crate::{ContainerEvent, Result};
use grpc::Channel;

/// Both services of a runtime behind a socket.
pub struct Remote {
    channel: Channel,
    events: broadcast::Sender<ContainerEvent>,
}

impl Remote {
    /// `endpoint` is a path, or a URL of one: `unix:///run/containerd/containerd.sock`.
    pub fn new(endpoint: &str) -> Remote {
        let path = PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
        let (events, _) = broadcast::channel(1);
        Remote { channel: Channel::new(path), events }
    }

    async fn runtime<A, B>(&self, method: &str, request: &A) -> Result<B>
    where
        A: protobuf::Message + Sync,
        B: protobuf::Message,
    {
        self.channel.call("runtime.v1.RuntimeService", method, request).await
    }

    async fn images<A, B>(&self, method: &str, request: &A) -> Result<B>
    where
        A: protobuf::Message + Sync,
        B: protobuf::Message,
    {
        self.channel.call("runtime.v1.ImageService", method, request).await
    }
}
