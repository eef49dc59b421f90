//! Responses of the kubelet's API: text, JSON, or streams.

use std::convert::Infallible;

use bytes::Bytes;
use corten_api::{Value, json};
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;

pub(super) type ApiResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) fn text(code: StatusCode, text: impl Into<Bytes>) -> ApiResponse {
    with_type(code, "text/plain; charset=utf-8", text)
}

pub(super) fn tree(value: &Value) -> ApiResponse {
    with_type(StatusCode::OK, "application/json", json::write_to_string(value))
}

pub(super) fn html(page: impl Into<Bytes>) -> ApiResponse {
    with_type(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// A response in the text format of Prometheus.
pub(super) fn exposition(text: impl Into<Bytes>) -> ApiResponse {
    with_type(StatusCode::OK, corten_serving::http::METRICS_CONTENT_TYPE, text)
}

fn with_type(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> ApiResponse {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A response that is sent as its bytes are produced.
pub(super) fn streamed(bytes: mpsc::Receiver<Bytes>) -> ApiResponse {
    let frames = stream::unfold(bytes, async |mut bytes| {
        let next = bytes.recv().await?;
        Some((Ok(Frame::data(next)), bytes))
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}
