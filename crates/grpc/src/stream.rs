//! The two directions of a stream of messages.
//!
//! Invariants: a sender waits for a slow receiver, with at most [`QUEUE`] messages in between; a receiver that is dropped
//! cancels the call.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::frame::{self, Frames};
use crate::protobuf::Message;
use crate::{Code, Status};

/// Messages between a sender and its connection.
const QUEUE: usize = 4;

pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// Sends messages. Dropping it ends this direction of the stream.
#[derive(Debug)]
pub struct Sender<T> {
    messages: mpsc::Sender<Bytes>,
    kind: PhantomData<fn(T)>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { messages: self.messages.clone(), kind: PhantomData }
    }
}

impl<T: Message> Sender<T> {
    pub(crate) fn new() -> (Sender<T>, mpsc::Receiver<Bytes>) {
        let (messages, sent) = mpsc::channel(QUEUE);
        (Sender { messages, kind: PhantomData }, sent)
    }

    /// Sends a message, once there is room for it. Fails when the stream has ended; a client's receiver has its status.
    pub async fn send(&self, message: &T) -> Result<(), Status> {
        let bytes = frame::encode(message)?;
        self.messages.send(bytes).await.map_err(|_| Status::new(Code::Canceled, "the stream has ended"))
    }

    /// Returns when the peer accepts no more messages.
    pub async fn closed(&self) {
        self.messages.closed().await;
    }
}

pub(crate) type Response = Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, Status>> + Send>>;

/// Receives messages.
pub struct Receiver<T> {
    source: Source,
    frames: Frames,
    deadline: Option<Instant>,
    kind: PhantomData<fn() -> T>,
}

enum Source {
    /// A call whose response has not begun.
    Response(Response),
    /// The body of a response, which ends with a status.
    Messages {
        body: Incoming,
        /// The status in the headers, of a response without a body.
        early: Option<Result<(), Status>>,
    },
    /// The body of a request, which just ends.
    Request(Incoming),
    Ended(Result<(), Status>),
}

impl<T: Message> Receiver<T> {
    pub(crate) fn of_response(response: Response, max: usize, deadline: Option<Instant>) -> Receiver<T> {
        Receiver { source: Source::Response(response), frames: Frames::new(max), deadline, kind: PhantomData }
    }

    pub(crate) fn of_request(body: Incoming, max: usize) -> Receiver<T> {
        let source = Source::Request(body);
        Receiver { source, frames: Frames::new(max), deadline: None, kind: PhantomData }
    }

    /// The next message, or `None` at the end of the stream. Dropping the future loses nothing. After an error, the stream
    /// has ended, and the same error is returned again.
    pub async fn next(&mut self) -> Result<Option<T>, Status> {
        let next = match self.deadline {
            None => self.receive().await,
            Some(deadline) => timeout_at(deadline, self.receive())
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded())),
        };
        if let Err(status) = &next {
            self.source = Source::Ended(Err(status.clone()));
        }
        next
    }

    /// The only message of a stream.
    pub(crate) async fn only(mut self) -> Result<T, Status> {
        let none = || Status::internal("the stream ended without a message");
        let message = self.next().await?.ok_or_else(none)?;
        match self.next().await? {
            None => Ok(message),
            Some(_) => Err(Status::internal("more than one message in a unary call")),
        }
    }

    async fn receive(&mut self) -> Result<Option<T>, Status> {
        loop {
            if let Some(message) = self.frames.next()? {
                return Ok(Some(message));
            }
            let body = match &mut self.source {
                Source::Ended(result) => return result.clone().map(|()| None),
                Source::Response(response) => {
                    self.source = opened(response.await?)?;
                    continue;
                }
                Source::Messages { body, .. } | Source::Request(body) => body,
            };
            match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.frames.push(&bytes),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        self.end(Some(&trailers))?;
                    }
                },
                Some(Err(error)) => return Err(Status::transport("cannot read from the stream", &error)),
                None => self.end(None)?,
            }
        }
    }

    /// Ends the stream, successfully or not.
    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), Status> {
        let result = match &mut self.source {
            Source::Messages { early, .. } => {
                let status = trailers.and_then(Status::from_trailers).or_else(|| early.take());
                status.unwrap_or_else(|| Err(Status::unavailable("the stream ended without a status")))
            }
            _ => Ok(()),
        };
        self.source = Source::Ended(result.clone());
        result?;
        if self.frames.is_empty() {
            Ok(())
        } else {
            Err(Status::internal("the stream ended within a message"))
        }
    }
}

/// Checks the headers of a response.
fn opened(response: http::Response<Incoming>) -> Result<Source, Status> {
    let early = Status::from_trailers(response.headers());
    if response.status() != StatusCode::OK {
        return Err(early.and_then(Result::err).unwrap_or_else(|| Status::from_http(response.status())));
    }
    let content_type = response.headers().get(header::CONTENT_TYPE);
    if !content_type.is_some_and(|kind| kind.as_bytes().starts_with(CONTENT_TYPE.as_bytes())) {
        let message = format!("unexpected content-type {content_type:?} received from server");
        return Err(Status::new(Code::Unknown, message));
    }
    Ok(Source::Messages { body: response.into_body(), early })
}
