//! Request bodies. A request counts as in flight (`in_flight`) only once its body is read: a client that announces a body
//! and does not send it does not delay other requests.
//!
//! The number of requests that wait for their body is limited: a user has a share, and when there are many in total, each
//! user may still wait for one. Most bodies arrive with their headers and are never counted.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use corten_api::Status;
use corten_auth::{MASTERS, User};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Body;
use parking_lot::Mutex;

/// The largest body that is read.
const MAX_BODY: usize = 3 * 1024 * 1024;
/// The part of a body over the limit that is read and discarded.
const MAX_DRAINED: usize = 64 * 1024 * 1024;
/// The largest buffer that is allocated by the announced length alone.
const MAX_PREPARED: usize = 64 * 1024;

/// The limit of bodies that are waited for at once: of one user, and in total before each user is limited to one.
const SHARE: usize = 32;
const MOST: usize = 400;

/// The bodies that are waited for, counted by user.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    total: usize,
    by_user: HashMap<String, usize>,
}

/// A body that is waited for.
struct Reading<'a> {
    readers: &'a Readers,
    user: String,
}

/// True if a request may wait for its body.
fn admits(total: usize, own: usize) -> bool {
    own < if total < MOST { SHARE } else { 1 }
}

impl Readers {
    /// Reads the body of a user's request; `None` if the limit of waiting requests is reached.
    pub(crate) async fn read<B>(
        &self,
        user: &User,
        headers: &HeaderMap,
        body: B,
        limit: Duration,
    ) -> Result<Option<Bytes>, Status>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut reading = std::pin::pin!(read(body, headers));
        if let Poll::Ready(read) = poll_once(reading.as_mut()).await {
            return read.map(Some);
        }
        let Some(_waiting) = self.enter(user) else { return Ok(None) };
        match tokio::time::timeout(limit, reading).await {
            Ok(read) => read.map(Some),
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0)),
        }
    }

    fn enter(&self, user: &User) -> Option<Reading<'_>> {
        let mut waiting = self.0.lock();
        let own = waiting.by_user.get(&*user.name).copied().unwrap_or_default();
        if !admits(waiting.total, own) && !user.is_in(MASTERS) {
            return None;
        }
        waiting.total += 1;
        waiting.by_user.insert(user.name.to_string(), own + 1);
        Some(Reading { readers: self, user: user.name.to_string() })
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut waiting = self.readers.0.lock();
        waiting.total -= 1;
        if let Some(own) = waiting.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                waiting.by_user.remove(&self.user);
            }
        }
    }
}

/// Polls a future once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

async fn read<B>(body: B, headers: &HeaderMap) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    let mut first: Option<Bytes> = None;
    let mut rest = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| {
            let error: Box<dyn std::error::Error + Send + Sync> = e.into();
            Status::bad_request(format!("unable to read the request body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len();
        // A body over the limit is read to its end, up to `MAX_DRAINED`, so that the client reads the response.
        if seen > MAX_BODY || announced.is_some_and(|length| length > MAX_BODY) {
            if seen > MAX_DRAINED {
                break;
            }
            (first, rest) = (None, Vec::new());
            continue;
        }
        match &first {
            None => first = Some(data),
            Some(start) => {
                if rest.is_empty() {
                    let arrived = start.len() + data.len();
                    rest.reserve(announced.unwrap_or(arrived).clamp(arrived, arrived + MAX_PREPARED));
                    rest.extend_from_slice(start);
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    if seen > MAX_BODY {
        return Err(Status::too_large(format!("limit is {MAX_BODY}")));
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.into() })
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..User::default()
        }
    }

    /// A body that never sends anything.
    fn stalled() -> impl Body<Data = Bytes, Error = std::convert::Infallible> + Send {
        StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, std::convert::Infallible>>())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_delays_no_other() {
        let (readers, headers) = (Readers::default(), HeaderMap::new());
        let limit = Duration::from_secs(60);
        let (bad, node) = (user("bad", &[]), user("system:node:a", &[]));
        let mut waiting: Vec<_> =
            (0..SHARE).map(|_| Box::pin(readers.read(&bad, &headers, stalled(), limit))).collect();
        for one in &mut waiting {
            assert!(poll_once(one.as_mut()).await.is_pending());
        }
        let refused = readers.read(&bad, &headers, stalled(), limit).await;
        assert!(matches!(refused, Ok(None)), "the share is used up");
        let whole = readers.read(&bad, &headers, Full::new(Bytes::from("x")), limit).await;
        assert_eq!(whole.ok().flatten().as_deref(), Some(&b"x"[..]), "what is here is read");
        let mut other = Box::pin(readers.read(&node, &headers, stalled(), limit));
        assert!(poll_once(other.as_mut()).await.is_pending(), "others have shares of their own");
        for one in waiting {
            assert!(one.await.is_err(), "it has an end");
        }
        drop(other);
        assert_eq!(readers.0.lock().total, 0);
        assert!(readers.0.lock().by_user.is_empty());
    }

    #[test]
    fn every_user_may_wait_for_one_body() {
        assert!(admits(0, SHARE - 1) && !admits(0, SHARE));
        assert!(admits(MOST, 0) && !admits(MOST, 1));
        assert!(admits(usize::MAX, 0));
        let readers = Readers::default();
        let admin = user("admin", &[MASTERS]);
        let held: Vec<_> = (0..2 * SHARE).map(|_| readers.enter(&admin)).collect();
        assert!(held.iter().all(Option::is_some), "masters always get an answer");
    }

    #[tokio::test]
    async fn a_body_that_never_arrives_is_counted_while_it_is_waited_for() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, MAX_BODY.into());
        let parts = ["a", "b"].map(|text| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(text))));
        let body = read(StreamBody::new(futures_util::stream::iter(parts)), &headers).await.unwrap();
        assert_eq!(&body[..], b"ab");
        let large = Full::new(Bytes::from(vec![0; MAX_BODY + 1]));
        assert!(read(large, &HeaderMap::new()).await.is_err());
    }
}
