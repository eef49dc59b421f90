//! Short hashes of content for names: equal content has equal hashes, in every process and release.
//!
//! They are compared only with each other, so any stable function will do; it must never change.

use corten_api::{Value, json};

/// The alphabet of generated names: without vowels, so that they form no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a tree. A caller that finds the name taken by other content increments `collisions`.
pub(crate) fn of(tree: &Value, collisions: Option<i64>) -> String {
    let mut hash = fnv(FNV_START, json::write_to_string(tree).as_bytes());
    if let Some(count) = collisions {
        hash = fnv(hash, &count.to_le_bytes());
    }
    safe(&hash.to_string())
}

/// Maps a text to the safe alphabet.
fn safe(text: &str) -> String {
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

const FNV_START: u32 = 0x811c_9dc5;

/// FNV-1a.
fn fnv(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    #[test]
    fn hashes_differ_by_content_and_by_collision() {
        assert_eq!(fnv(FNV_START, b"foobar"), 0xbf9c_f968);
        assert_eq!(safe("0123456789"), "456789bcdf");
        let tree = value!({"a": 1});
        assert_eq!(of(&tree, None), of(&tree.clone(), None));
        assert_ne!(of(&tree, None), of(&tree, Some(1)));
        assert_ne!(of(&tree, None), of(&value!({"a": 2}), None));
    }
}
