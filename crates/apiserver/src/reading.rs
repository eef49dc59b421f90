//! Bodies on their way in. A request takes its place among those that are worked on (`in_flight`) only once its body is
//! here: a client that announces one and does not send it does not delay other requests.
//!
//! What is still to come is waited for without a place, but not by any number of requests: a user has a share, and when
//! there are many in all, a user that waits for none still has room for one. Most bodies come with their headers and are never
//! counted.

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
/// How much of a body that is too large is read and thrown away.
const MAX_DRAINED: usize = 64 * 1024 * 1024;
/// How much room is made for a body that is only announced.
const MAX_PREPARED: usize = 64 * 1024;

/// How many bodies may be waited for at once, of one user, and in total before each user is limited to one.
const SHARE: usize = 32;
const MOST: usize = 400;

/// How many bodies are waited for, by user.
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

/// Whether one more may be waited for.
fn admits(total: usize, own: usize) -> bool {
    own < if total < MOST { SHARE } else { 1 }
}

impl Readers {
    /// The body of a user's request; `None` if there is no place to wait for it.
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

/// How far a future has come already.
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
        // A body that is too large is read to its end, within reason, so that the client hears why.
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

    /// A body of which nothing ever comes.
    fn stalled() -> impl Body<Data = Bytes, Error = std::convert::Infallible> + Send {
        StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, std::convert::Infallible>>())
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_keeps_nobody_waiting() {
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
    fn everybody_has_room_for_one() {
        assert!(admits(0, SHARE - 1) && !admits(0, SHARE));
        assert!(admits(MOST, 0) && !admits(MOST, 1));
        assert!(admits(usize::MAX, 0));
        let readers = Readers::default();
        let admin = user("admin", &[MASTERS]);
        let held: Vec<_> = (0..2 * SHARE).map(|_| readers.enter(&admin)).collect();
        assert!(held.iter().all(Option::is_some), "masters always get an answer");
    }

    #[tokio::test]
    async fn announcing_is_not_sending() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, MAX_BODY.into());
        let parts = ["a", "b"].map(|text| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(text))));
        let body = read(StreamBody::new(futures_util::stream::iter(parts)), &headers).await.unwrap();
        assert_eq!(&body[..], b"ab");
        let large = Full::new(Bytes::from(vec![0; MAX_BODY + 1]));
        assert!(read(large, &HeaderMap::new()).await.is_err());
    }
}
