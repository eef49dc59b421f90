//! An object as it is stored and sent: JSON text with a known head and a known position of the revision.
//!
//! The text begins with kind and apiVersion, so that a list item (which has neither) is a slice of it; the
//! position of `metadata.resourceVersion` is known, so that a revision can be inserted without decoding.

use std::cell::RefCell;

use crate::json::{self, write_string};
use crate::value::Value;

/// The text of an object without its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    /// The position of the revision's digits: between the quotes of an empty `resourceVersion`.
    pub revision_at: usize,
}

/// Maximum number of digits of a revision.
const REVISION_DIGITS: usize = 20;
/// Maximum size of the buffer that a thread keeps.
const KEPT_ROOM: usize = 64 << 10;

thread_local! {
    /// The buffer for texts of unknown length.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Encodes an object without its revision, leaving a place for it.
pub fn encode(object: &Value, kind: &str, api_version: &str) -> Encoded {
    ROOM.with_borrow_mut(|room| {
        room.clear();
        let revision_at = write(room, object, kind, api_version);
        // The bytes live as long as the object, so they have room for the revision and nothing else.
        let mut bytes = Vec::with_capacity(room.len() + REVISION_DIGITS);
        bytes.extend_from_slice(room);
        room.shrink_to(KEPT_ROOM);
        Encoded { bytes, revision_at }
    })
}

/// Writes an object; returns the position of its revision.
fn write(bytes: &mut Vec<u8>, object: &Value, kind: &str, api_version: &str) -> usize {
    head(bytes, kind, api_version);
    let mut revision_at = 0;
    let empty = crate::Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let mut metadata_written = false;
    for (key, value) in map.iter() {
        if key == "kind" || key == "apiVersion" {
            continue;
        }
        if !metadata_written && key.as_str() >= "metadata" {
            revision_at = metadata(bytes, map.get("metadata"));
            metadata_written = true;
        }
        if key == "metadata" {
            continue;
        }
        bytes.push(b',');
        write_string(bytes, key);
        bytes.push(b':');
        json::write(bytes, value);
    }
    if !metadata_written {
        revision_at = metadata(bytes, None);
    }
    bytes.push(b'}');
    revision_at
}

/// `{"kind":"Pod","apiVersion":"v1"`: everything up to the first member that differs between objects.
fn head(out: &mut Vec<u8>, kind: &str, api_version: &str) {
    out.extend_from_slice(b"{\"kind\":");
    write_string(out, kind);
    out.extend_from_slice(b",\"apiVersion\":");
    write_string(out, api_version);
}

/// The length of the head of an object of this kind.
pub fn head_len(kind: &str, api_version: &str) -> usize {
    let mut out = Vec::with_capacity(64);
    head(&mut out, kind, api_version);
    out.len()
}

fn metadata(out: &mut Vec<u8>, metadata: Option<&Value>) -> usize {
    out.extend_from_slice(b",\"metadata\":{");
    let mut at = None;
    let mut first = true;
    for (key, value) in metadata.and_then(Value::as_object).into_iter().flat_map(|m| m.iter()) {
        if at.is_none() && key.as_str() >= "resourceVersion" {
            at = Some(revision(out, &mut first));
        }
        if key == "resourceVersion" {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write_string(out, key);
        out.push(b':');
        json::write(out, value);
    }
    let at = at.unwrap_or_else(|| revision(out, &mut first));
    out.push(b'}');
    at
}

fn revision(out: &mut Vec<u8>, first: &mut bool) -> usize {
    if !std::mem::take(first) {
        out.push(b',');
    }
    out.extend_from_slice(b"\"resourceVersion\":\"\"");
    out.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[track_caller]
    fn check(object: &Value, expected: &str) {
        let encoded = encode(object, "Pod", "v1");
        let (before, after) = encoded.bytes.split_at(encoded.revision_at);
        let text =
            format!("{}@{}", std::str::from_utf8(before).unwrap(), std::str::from_utf8(after).unwrap());
        assert_eq!(text, expected);
        assert!(encoded.bytes[head_len("Pod", "v1")..].starts_with(b","));
    }

    #[test]
    fn the_revision_has_its_place() {
        check(
            &value!({"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "spec": {}, "data": 1}),
            r#"{"kind":"Pod","apiVersion":"v1","data":1,"metadata":{"name":"a","resourceVersion":"@","uid":"u"},"spec":{}}"#,
        );
        check(&value!({}), r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"@"}}"#);
        check(
            &value!({"metadata": {"name": "a"}}),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"@"}}"#,
        );
    }
}
