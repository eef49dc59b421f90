//! Entry point of the private decoders for the fuzz targets in `fuzz/`; nothing else calls it.

use http::{HeaderMap, HeaderValue};

use crate::frame::Frames;
use crate::health::HealthCheckRequest;
use crate::{Status, status, timeout};

/// The limit of a message.
const MAX: usize = 1 << 10;

/// The bytes of a body in parts: the first byte is their size.
pub fn body(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    let mut frames = Frames::new(MAX);
    for part in data.chunks(usize::from(size).max(1)) {
        frames.push(part);
        loop {
            match frames.next::<HealthCheckRequest>() {
                Ok(Some(message)) => assert!(message.service.len() <= 3 * MAX),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// A value of a header: as a message, a code and a timeout.
pub fn header(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    if let Some(timeout) = value.to_str().ok().and_then(timeout::decode) {
        let again = timeout::decode(&timeout::encode(timeout)).expect("a timeout that was written is read");
        assert!(again >= timeout);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert(status::STATUS, value.clone());
    trailers.insert(status::MESSAGE, value);
    if let Some(result @ Err(_)) = Status::from_trailers(&trailers) {
        assert_eq!(Status::from_trailers(&status::trailers(&result)), Some(result));
    }
}
