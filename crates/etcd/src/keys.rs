//! etcd's keys in the store. etcd's are bytes, the store's are texts: each byte becomes the character with its number.
//!
//! The mapping keeps order and prefixes, and it is the identity for ASCII, so keys of the API server are the same on both
//! sides. A key of other bytes takes twice its size; in return the store, its files and its users keep texts.

use std::sync::Arc;

use bytes::Bytes;
use corten_store::{End, Keys};

pub(crate) fn text(key: &[u8]) -> Arc<str> {
    match std::str::from_utf8(key) {
        Ok(text) if text.is_ascii() => text.into(),
        _ => key.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// The bytes of a key. A character that is no byte cannot occur in a key that [`text`] made; other keys of the store are
/// shown in UTF-8.
pub(crate) fn bytes(key: &str) -> Bytes {
    if key.is_ascii() {
        return Bytes::copy_from_slice(key.as_bytes());
    }
    let bytes: Result<Vec<u8>, _> = key.chars().map(|character| u8::try_from(u32::from(character))).collect();
    bytes.map_or_else(|_| Bytes::copy_from_slice(key.as_bytes()), Bytes::from)
}

/// The keys of a request: without an end the one key, with the end `\0` all keys from the start.
pub(crate) fn keys(key: &[u8], range_end: &[u8]) -> Keys {
    let end = match range_end {
        [] => End::Same,
        [0] => End::Unbounded,
        end => End::Before(text(end)),
    };
    Keys { start: text(key), end }
}

/// True if the keys include one that begins with `prefix`.
pub(crate) fn touches(keys: &Keys, prefix: &str) -> bool {
    if keys.start.starts_with(prefix) {
        return !matches!(&keys.end, End::Before(end) if *end <= keys.start);
    }
    match &keys.end {
        End::Same => false,
        End::Before(end) => &*keys.start < prefix && &**end > prefix,
        End::Unbounded => &*keys.start < prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_come_back() {
        let mut all: Vec<Vec<u8>> =
            (0..=255u8).flat_map(|a| [vec![a], vec![b'/', a], vec![a, 0], vec![a, 255]]).collect();
        all.sort();
        all.dedup();
        let texts: Vec<Arc<str>> = all.iter().map(|key| text(key)).collect();
        assert!(texts.is_sorted());
        for (key, text) in all.iter().zip(&texts) {
            assert_eq!(bytes(text), key);
        }
        assert_eq!(&*text(b"/registry/pods"), "/registry/pods");
    }

    #[test]
    fn ranges_that_touch_a_prefix_are_found() {
        let touches = |key: &[u8], end: &[u8]| touches(&keys(key, end), "/registry/");
        for (key, end, expected) in [
            (&b"/registry/pods"[..], &b""[..], true),
            (b"/registry", b"", false),
            (b"/registry", b"/registrz", true),
            (b"/a", b"/b", false),
            (b"/registry0", b"\0", false),
            (b"\0", b"\0", true),
            (b"a", b"\0", false),
            (b"/registry/z", b"/registry/a", false),
            (b"/a", b"/registry/", false),
        ] {
            assert_eq!(touches(key, end), expected, "{key:?} {end:?}");
        }
    }
}
