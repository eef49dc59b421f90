//! The bodies that this crate sends: one message, or the messages of a stream.
//!
//! Invariant: dropping a response's body, which happens when the client cancels its call, ends the handler.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Status;
use crate::status::trailers;

/// The body of a request or a response.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole { message: Option<Bytes>, trailers: Option<HeaderMap> },
    Request { messages: mpsc::Receiver<Bytes> },
    Response { messages: mpsc::Receiver<Bytes>, handler: Handler },
}

impl Body {
    /// A request of one message.
    pub(crate) fn message(message: Bytes) -> Body {
        Body(Kind::Whole { message: Some(message), trailers: None })
    }

    /// A request of many messages, until their sender is dropped.
    pub(crate) fn messages(messages: mpsc::Receiver<Bytes>) -> Body {
        Body(Kind::Request { messages })
    }

    /// A response of at most one message.
    pub(crate) fn result(result: Result<Bytes, Status>) -> Body {
        let (message, result) = match result {
            Ok(message) => (Some(message), Ok(())),
            Err(status) => (None, Err(status)),
        };
        Body(Kind::Whole { message, trailers: Some(trailers(&result)) })
    }

    /// A response of many messages, which ends with the result of their handler.
    pub(crate) fn handled(messages: mpsc::Receiver<Bytes>, handler: JoinHandle<Result<(), Status>>) -> Body {
        Body(Kind::Response { messages, handler: Handler(Some(handler)) })
    }

    /// A response without messages and trailers.
    pub(crate) fn empty() -> Body {
        Body(Kind::Whole { message: None, trailers: None })
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match &mut self.get_mut().0 {
            Kind::Whole { message, trailers } => {
                let data = message.take().map(Frame::data);
                data.or_else(|| trailers.take().map(Frame::trailers))
            }
            Kind::Request { messages } => ready!(messages.poll_recv(cx)).map(Frame::data),
            Kind::Response { messages, handler } => match ready!(messages.poll_recv(cx)) {
                Some(message) => Some(Frame::data(message)),
                None => ready!(handler.poll_end(cx)).map(|result| Frame::trailers(trailers(&result))),
            },
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole { message: None, trailers: None })
    }
}

/// The task of a handler, aborted when dropped.
#[derive(Debug)]
struct Handler(Option<JoinHandle<Result<(), Status>>>);

impl Handler {
    /// The handler's result, once.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), Status>>> {
        let Some(task) = &mut self.0 else { return Poll::Ready(None) };
        let result = ready!(Pin::new(task).poll(cx));
        self.0 = None;
        Poll::Ready(Some(result.unwrap_or_else(|_| Err(Status::internal("the handler panicked")))))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
