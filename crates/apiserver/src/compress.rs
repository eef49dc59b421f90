//! Gzip for large responses, as upstream does: above 128 KB, if the client accepts it, never for watches.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY};

use crate::body::ResponseBody;
use crate::respond::Answer;

const THRESHOLD: u64 = 128 * 1024;

pub(crate) fn compress(request: &HeaderMap, verb: &str, mut answer: Answer) -> Answer {
    if !accepts_gzip(request)
        || !matches!(verb, "GET" | "LIST")
        || answer.headers().contains_key(CONTENT_ENCODING)
    {
        return answer;
    }
    let body = std::mem::replace(answer.body_mut(), ResponseBody::Empty);
    *answer.body_mut() = match body {
        ResponseBody::Full(bytes) if bytes.len() as u64 > THRESHOLD => ResponseBody::Full(whole(&bytes)),
        ResponseBody::List(mut list) if list.size() > THRESHOLD => stream(move || list.next_frame()),
        ResponseBody::Rendered(mut list) => stream(move || list.next_frame()),
        ResponseBody::Pieces(mut pieces) => stream(move || pieces.next_frame()),
        body => {
            *answer.body_mut() = body;
            return answer;
        }
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(CONTENT_LENGTH);
    answer
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let header = request.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(',').any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        let refused = quality.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        name.trim() == "gzip" && !refused
    })
}

fn whole(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing into memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// Compresses a list as it is sent. After each frame other tasks of the thread have their turn.
fn stream(frames: impl FnMut() -> Option<Bytes> + Send + 'static) -> ResponseBody {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let state = Some((frames, encoder));
    ResponseBody::Stream(Box::pin(futures_util::stream::unfold(state, |state| async move {
        let (mut frames, mut encoder) = state?;
        loop {
            let Some(frame) = frames() else {
                return Some((encoder.finish().unwrap_or_default().into(), None));
            };
            let _ = encoder.write_all(&frame);
            tokio::task::yield_now().await;
            let ready = std::mem::take(encoder.get_mut());
            if !ready.is_empty() {
                return Some((Bytes::from(ready), Some((frames, encoder))));
            }
        }
    })))
}
