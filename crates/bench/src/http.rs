//! A deliberately small HTTP/1.1 client over TLS.
//!
//! The load generator shares the machine's cores with the server it measures, so every microsecond it takes is
//! missing from the result. It therefore does the least that is correct: one request at a time per connection,
//! bodies passed on as they arrive, no headers parsed beyond those of the body's framing.
//!
//! Invariants: a response is always read to its end before the next request is written, and a connection reports whether it
//! can be reused. There are no redirects, no compression and no retries here.

mod chunked;
mod connection;

pub(crate) use connection::{Body, Connection, Target};

use std::fmt::Arguments;
use std::io::Write;

/// Appends a request to `out`. `content` is a content type and a body.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    host: &str,
    method: &str,
    path: Arguments<'_>,
    content: Option<(&str, &[u8])>,
) {
    write_request_accepting(out, host, method, path, content, "application/json");
}

/// Appends a request to `out`, for a response of a media type.
pub(crate) fn write_request_accepting(
    out: &mut Vec<u8>,
    host: &str,
    method: &str,
    path: Arguments<'_>,
    content: Option<(&str, &[u8])>,
    accept: &str,
) {
    // Writing into a vector cannot fail.
    let _ = write!(
        out,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: corten-bench\r\naccept: {accept}\r\n"
    );
    match content {
        Some((kind, body)) => {
            let _ = write!(out, "content-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
            out.extend_from_slice(body);
        }
        None => out.extend_from_slice(b"\r\n"),
    }
}
