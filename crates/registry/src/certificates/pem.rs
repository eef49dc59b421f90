//! PEM blocks: base64 between two lines that name their type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::Value;

pub(super) const CERTIFICATE: &str = "CERTIFICATE";

/// A block.
#[derive(Debug, PartialEq)]
pub(super) struct Block<'t> {
    pub(super) kind: &'t str,
    /// True if it has headers, as encrypted keys do.
    pub(super) has_headers: bool,
    pub(super) bytes: Vec<u8>,
}

/// The blocks of a text. Text around them and broken blocks are skipped.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once("-----BEGIN ")?;
            rest = after;
            if let Some((block, after)) = block(after) {
                rest = after;
                return Some(block);
            }
        }
    })
}

/// The block whose type a text begins with, and the text after it.
fn block(text: &str) -> Option<(Block<'_>, &str)> {
    let (kind, text) = text.split_once("-----")?;
    let (body, rest) = text.split_once("-----END ")?;
    let rest = rest.strip_prefix(kind)?.strip_prefix("-----")?;
    let (headers, body): (Vec<&str>, Vec<&str>) = body.lines().partition(|line| line.contains(": "));
    let body: String = body.concat().split_whitespace().collect();
    let bytes = STANDARD.decode(body).ok()?;
    Some((Block { kind, has_headers: !headers.is_empty(), bytes }, rest))
}

/// The text in a member that holds bytes.
pub(super) fn text_of_bytes(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_text() {
        let text = "hello\n-----BEGIN A-----\naGVs\nbG8=\n-----END A-----\nand\n-----BEGIN B-----\nX: y\n\naGk=\n-----END B-----\n-----BEGIN C-----\n?\n-----END C-----\n";
        let found: Vec<Block<'_>> = blocks(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Block { kind: "A", has_headers: false, bytes: b"hello".to_vec() });
        assert_eq!(found[1], Block { kind: "B", has_headers: true, bytes: b"hi".to_vec() });
    }
}
