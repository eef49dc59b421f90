//! Calls: unary, and streams in either direction or both.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE as CONTENT_TYPE_HEADER, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use tokio::time::Instant;

use crate::body::Body;
use crate::channel::Channel;
use crate::frame;
use crate::protobuf::Message;
use crate::stream::{CONTENT_TYPE, Receiver, Sender};
use crate::timeout::{self, TIMEOUT};
use crate::{MAX_MESSAGE, Status};

/// The settings of a call.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// The time until the call has ended, sent to the server and enforced here. A call without one may last for ever.
    pub timeout: Option<Duration>,
    pub metadata: HeaderMap,
    /// The limit of a received message.
    pub max_message: usize,
}

impl Default for CallOptions {
    fn default() -> CallOptions {
        CallOptions { timeout: None, metadata: HeaderMap::new(), max_message: MAX_MESSAGE }
    }
}

impl CallOptions {
    pub fn with_timeout(timeout: Duration) -> CallOptions {
        CallOptions { timeout: Some(timeout), ..CallOptions::default() }
    }
}

impl Channel {
    /// One request, one response. `method` is a path: `/etcdserverpb.KV/Range`.
    pub fn unary<A: Message, B: Message>(
        &self,
        method: &'static str,
        request: &A,
        options: CallOptions,
    ) -> impl Future<Output = Result<B, Status>> + use<A, B> {
        let receiver = self.server_streaming(method, request, options);
        async move { receiver?.only().await }
    }

    /// One request, many responses.
    pub fn server_streaming<A: Message, B: Message>(
        &self,
        method: &'static str,
        request: &A,
        options: CallOptions,
    ) -> Result<Receiver<B>, Status> {
        Ok(self.start(method, Body::message(frame::encode(request)?), options))
    }

    /// Many requests, many responses, or one. The call begins when the receiver is polled, and is cancelled when it is
    /// dropped; until then the sender's queue fills.
    pub fn streaming<A: Message, B: Message>(
        &self,
        method: &'static str,
        options: CallOptions,
    ) -> (Sender<A>, Receiver<B>) {
        let (sender, messages) = Sender::new();
        (sender, self.start(method, Body::messages(messages), options))
    }

    fn start<B: Message>(&self, method: &'static str, body: Body, options: CallOptions) -> Receiver<B> {
        let CallOptions { timeout, metadata, max_message } = options;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        *headers = metadata;
        headers.insert(CONTENT_TYPE_HEADER, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(USER_AGENT, HeaderValue::from_static(self.options().user_agent));
        if let Some(timeout) = timeout
            && let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(timeout::encode(timeout)))
        {
            headers.insert(TIMEOUT, value);
        }
        // A timeout beyond the clock's range is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let channel = self.clone();
        let path = PathAndQuery::from_static(method);
        let response = Box::pin(async move { channel.send(request, path).await });
        Receiver::of_response(response, max_message, deadline)
    }
}
