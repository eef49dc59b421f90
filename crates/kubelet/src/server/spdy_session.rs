//! Exec and attach sessions over SPDY: one stream for each channel, distinguished by headers.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use tokio::sync::mpsc;

use super::remote_command::{Channel, Client, Streams};
use super::response::{self, ApiResponse};
use super::spdy::{Outlet, Stream};
use super::websocket;

pub(super) const VERSIONS: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
/// The time in which a client must open its streams.
const PATIENCE: Duration = Duration::from_secs(30);
const AHEAD: usize = 8;

/// The names of session protocols, the best first.
pub(super) const SESSION: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
pub(super) const PORT_FORWARD: [&str; 1] = ["portforward.k8s.io"];

pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text(UPGRADE).eq_ignore_ascii_case("SPDY/3.1")
        && text(CONNECTION).to_ascii_lowercase().contains("upgrade")
}

/// The first protocol of the client that is known here; the oldest if it names none.
pub(super) fn negotiate(headers: &HeaderMap, known: &'static [&'static str]) -> Option<&'static str> {
    let values = headers.get_all(VERSIONS).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    if offered.is_empty() {
        return known.last().copied();
    }
    offered.into_iter().find_map(|name| known.iter().copied().find(|known| *known == name))
}

/// The response to a client that speaks none of these.
pub(super) fn unsupported_protocol(known: &[&'static str]) -> ApiResponse {
    let mut answer = response::text(StatusCode::FORBIDDEN, "unable to upgrade: unable to negotiate protocol");
    for name in known {
        answer.headers_mut().append(ACCEPTED, HeaderValue::from_static(name));
    }
    answer
}

/// The response that switches the connection to SPDY.
pub(super) fn switching(protocol: &'static str) -> ApiResponse {
    let mut answer = Response::new(Empty::new().boxed_unsync());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert(VERSIONS, HeaderValue::from_static(protocol));
    answer
}

/// The client of a session, once it has opened all its streams; `None` if it does not.
pub(super) async fn client(
    mut opened: mpsc::Receiver<Stream>,
    protocol: &str,
    streams: Streams,
) -> Option<Client> {
    let resizes = streams.tty && matches!(protocol, "v4.channel.k8s.io" | "v3.channel.k8s.io");
    let wanted = [true, streams.stdin, streams.stdout, streams.stderr, resizes];
    let mut missing = wanted.into_iter().filter(|wanted| *wanted).count();
    let (mut stdin, mut stdout, mut stderr, mut status, mut sizes) = (None, None, None, None, None);
    while missing > 0 {
        let stream = tokio::time::timeout(PATIENCE, opened.recv()).await.ok()??;
        let place = match stream.header("streamtype") {
            "stdin" => &mut stdin,
            "stdout" => &mut stdout,
            "stderr" => &mut stderr,
            "error" => &mut status,
            "resize" => &mut sizes,
            _ => continue,
        };
        *place = Some(stream);
        missing -= 1;
    }
    let status = status?.out;
    let (out, outgoing) = mpsc::channel(AHEAD);
    let outlet = |stream: Option<Stream>| stream.map(|stream| stream.out);
    let outlets = Outlets { stdout: outlet(stdout), stderr: outlet(stderr), status };
    tokio::spawn(outlets.send_all(outgoing));
    let reads_status = protocol == SESSION[0];
    let stdin = stdin.map_or_else(closed, |stream| stream.data);
    Some(Client { stdin, sizes: sizes.map_or_else(closed, sizes_of), out, reads_status })
}

/// A receiver without data.
fn closed<T>() -> mpsc::Receiver<T> {
    mpsc::channel(1).1
}

/// The streams to the client.
struct Outlets {
    stdout: Option<Outlet>,
    stderr: Option<Outlet>,
    status: Outlet,
}

impl Outlets {
    /// Sends until the output ends or the client is gone, and then closes all streams.
    async fn send_all(self, mut outgoing: mpsc::Receiver<(Channel, Bytes)>) {
        loop {
            let next = tokio::select! {
                next = outgoing.recv() => next,
                () = self.status.closed() => return,
            };
            let Some((channel, bytes)) = next else { break };
            let outlet = match channel {
                Channel::Stdout => self.stdout.as_ref(),
                Channel::Stderr => self.stderr.as_ref(),
                Channel::Status => Some(&self.status),
            };
            if let Some(outlet) = outlet
                && outlet.send(bytes).await.is_err()
            {
                return;
            }
        }
        for outlet in self.stdout.iter().chain(&self.stderr).chain([&self.status]) {
            // The client may have left just now.
            let _ = outlet.end().await;
        }
    }
}

/// The terminal sizes on a stream, one JSON object after the other.
fn sizes_of(mut stream: Stream) -> mpsc::Receiver<(u16, u16)> {
    let (sender, sizes) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut text = Vec::new();
        while let Some(bytes) = stream.data.recv().await {
            text.extend_from_slice(&bytes);
            while let Some(end) = text.iter().position(|byte| *byte == b'}') {
                let object: Vec<u8> = text.drain(..=end).collect();
                if let Some(size) = websocket::size(object.trim_ascii()) {
                    // A session that has ended has no size.
                    let _ = sender.send(size).await;
                }
            }
        }
    });
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_negotiated() {
        let agreed = |names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(VERSIONS, HeaderValue::from_static(name));
            }
            negotiate(&headers, &SESSION)
        };
        assert_eq!(agreed(&["v5.channel.k8s.io", "v4.channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(agreed(&["v2.channel.k8s.io, channel.k8s.io"]), Some("v2.channel.k8s.io"));
        assert_eq!(agreed(&[]), Some("channel.k8s.io"));
        assert_eq!(agreed(&["v9.channel.k8s.io"]), None);
    }
}
