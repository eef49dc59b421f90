//! The CRI over a socket: containerd, CRI-O, or anything else that serves it.
//!
//! One HTTP/2 connection carries every call; when it breaks, the next call opens a new one. Nothing is cached here:
//! every call goes to the runtime.

mod calls;
#[doc(hidden)]
pub mod fuzz;
mod images;
mod runtime;
mod types;

use corten_grpc::protobuf::Message;
use corten_grpc::{CallOptions, Channel, ChannelOptions, Code, Endpoint, Status};
use tokio::sync::broadcast;

use crate::{ContainerEvent, Error, Result};

/// Maximum size of a response; lists of thousands of containers fit.
const LARGEST_RESPONSE: usize = 64 << 20;

/// Both services of a runtime behind a socket.
pub struct Remote {
    channel: Channel,
    events: broadcast::Sender<ContainerEvent>,
}

impl Remote {
    /// `endpoint` is a path, or a URL of one: `unix:///run/containerd/containerd.sock`.
    pub fn new(endpoint: &str) -> Remote {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        let (events, _) = broadcast::channel(1);
        let endpoints = vec![Endpoint::Unix(path.into())];
        Remote { channel: Channel::new(endpoints, ChannelOptions::default()), events }
    }

    /// Calls a method, by its path. A call may take as long as the operation does.
    async fn call<A: Message, B: Message>(&self, method: &'static str, request: &A) -> Result<B> {
        let options = CallOptions { max_message: LARGEST_RESPONSE, ..CallOptions::default() };
        self.channel.unary(method, request, options).await.map_err(error)
    }
}

/// Converts gRPC's status codes.
fn error(status: Status) -> Error {
    let Status { code, message } = status;
    match code {
        Code::InvalidArgument => Error::InvalidArgument(message),
        Code::DeadlineExceeded => Error::DeadlineExceeded(message),
        Code::NotFound => Error::NotFound(message),
        Code::AlreadyExists => Error::AlreadyExists(message),
        Code::FailedPrecondition => Error::FailedPrecondition(message),
        Code::Unimplemented => Error::Unimplemented(message),
        Code::Unavailable => Error::Unavailable(message),
        _ => Error::Internal(message),
    }
}
