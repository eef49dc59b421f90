//! Field sets as the `FieldsV1` text that objects carry.
//!
//! Invariants: an encoded set decodes to the same set, and a set has one encoding. The number of paths of a set in a
//! text can be counted without decoding it: most writes need only that of most managers.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::memchr2;

use super::element::Element;
use super::set::{Node, Set};
use crate::json;
use crate::value::{Str, Value};

/// Maximum depth of a text.
const MAX_DEPTH: usize = 128;

/// The reason for which a text is not a field set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid field set at byte {at}: {why}")]
pub struct InvalidFields {
    pub at: usize,
    pub why: String,
}

impl Set {
    pub fn parse(text: &str) -> Result<Set, InvalidFields> {
        let mut cursor = Cursor::new(text);
        let (set, _) = read(&mut cursor, 0)?;
        match cursor.peek() {
            None => Ok(set),
            Some(_) => Err(cursor.error("unexpected trailing data after JSON object")),
        }
    }

    pub fn to_text(&self) -> Str {
        let mut out = Vec::with_capacity(1024);
        write(self, false, &mut out, &mut Vec::new());
        String::from_utf8(out).unwrap_or_default().into()
    }
}

fn write(set: &Set, own: bool, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    out.push(b'{');
    if own && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
    }
    for (i, node) in set.nodes.iter().enumerate() {
        if i > 0 || own {
            out.push(b',');
        }
        node.element.write(out, scratch);
        out.push(b':');
        write(&node.children, node.member, out, scratch);
    }
    out.push(b'}');
}

/// Decodes one level; the flag is true if the level itself is in the set.
fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<(Set, bool), InvalidFields> {
    if depth > MAX_DEPTH {
        return Err(cursor.error("exceeded max depth"));
    }
    let mut set = Set::new();
    let (mut member, mut is_sorted) = (false, true);
    if cursor.enter()? {
        while let Some(key) = cursor.key()? {
            if key == "." {
                member = true;
                cursor.skip()?;
                continue;
            }
            let text = if cursor.is_escaped { unescape(key) } else { Ok(Cow::Borrowed(key)) };
            let text = text.map_err(|why| cursor.error(&why))?;
            let Some(element) = Element::parse(&text).map_err(|why| cursor.error(&why))? else {
                cursor.skip()?;
                continue;
            };
            let (children, member) = read(cursor, depth + 1)?;
            is_sorted &= set.nodes.last().is_none_or(|last| last.element < element);
            set.nodes.push(Node { element, member, children });
        }
    }
    if !is_sorted {
        set.normalize();
    }
    member |= set.is_empty();
    Ok((set, member))
}

/// The relation of a text to a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    /// The number of the set's paths in the text.
    pub(super) shared: usize,
    /// True if the text continues below a path where the set ends: they may disagree on what is atomic.
    pub(super) deeper: bool,
}

/// Compares a text with a set without decoding the parts that the set does not mention.
pub(super) fn overlap(text: &str, set: &Set) -> Result<Overlap, InvalidFields> {
    let mut found = Overlap::default();
    if !set.is_empty() {
        let mut cursor = Cursor::new(text);
        overlap_level(&mut cursor, set, false, 0, &mut found)?;
    }
    Ok(found)
}

fn overlap_level(
    cursor: &mut Cursor<'_>,
    set: &Set,
    wanted: bool,
    depth: usize,
    found: &mut Overlap,
) -> Result<(), InvalidFields> {
    if depth > MAX_DEPTH {
        return Err(cursor.error("exceeded max depth"));
    }
    let (mut member, mut below) = (false, false);
    let mut names = Names::default();
    if cursor.enter()? {
        while let Some(key) = cursor.key()? {
            if key == "." {
                member = true;
                cursor.skip()?;
                continue;
            }
            below = true;
            match names.find(set, key).map_err(|why| cursor.error(&why))? {
                None => cursor.skip()?,
                Some(at) => {
                    let node = &set.nodes[at];
                    overlap_level(cursor, &node.children, node.member, depth + 1, found)?;
                }
            }
        }
    }
    found.shared += usize::from(wanted && (member || !below));
    found.deeper |= wanted && below && (set.is_empty() || !member);
    Ok(())
}

/// The keys of the items of one level of a set as a text has them, built at the first use.
#[derive(Default)]
struct Names(Option<HashMap<Vec<u8>, usize>>);

impl Names {
    /// The node of a level for a text's key, which is still escaped.
    fn find(&mut self, set: &Set, key: &str) -> Result<Option<usize>, String> {
        if set.is_empty() {
            return Ok(None);
        }
        if let Some(name) = key.strip_prefix("f:").filter(|name| !name.contains('\\')) {
            return Ok(set.find_field(name).ok());
        }
        // Keys with several possible spellings have to be decoded.
        if key.starts_with("f:") || key.contains("\\u") || key.contains(": ") {
            let element = Element::parse(&unescape(key)?)?;
            return Ok(element.and_then(|e| set.find(&e).ok()));
        }
        let names = self.0.get_or_insert_with(|| {
            let items = set.nodes.iter().enumerate();
            items.filter(|(_, n)| !matches!(n.element, Element::Field(_))).map(name).collect()
        });
        Ok(names.get(key.as_bytes()).copied())
    }
}

fn name((at, node): (usize, &Node)) -> (Vec<u8>, usize) {
    let mut name = Vec::with_capacity(64);
    node.element.write(&mut name, &mut Vec::with_capacity(64));
    (name[1..name.len() - 1].to_vec(), at)
}

/// The text of a key, whose quotes are already off.
fn unescape(raw: &str) -> Result<Cow<'_, str>, String> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    match json::parse(format!("\"{raw}\"").as_bytes()) {
        Ok(Value::String(text)) => Ok(Cow::Owned(text.to_string())),
        Ok(_) => Err("expected a string".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A place in a JSON text of nested objects.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    /// True if the last string has an escape.
    is_escaped: bool,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0, is_escaped: false }
    }

    fn error(&self, why: &str) -> InvalidFields {
        InvalidFields { at: self.at, why: why.to_owned() }
    }

    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !byte.is_ascii_whitespace() {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Enters an object; false for null, which is empty.
    fn enter(&mut self) -> Result<bool, InvalidFields> {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                Ok(true)
            }
            Some(b'n') if self.text.as_bytes()[self.at..].starts_with(b"null") => {
                self.at += 4;
                Ok(false)
            }
            _ => Err(self.error("expected an object")),
        }
    }

    /// The next key of the current object, still escaped, past its colon; `None` at the object's end.
    fn key(&mut self) -> Result<Option<&'t str>, InvalidFields> {
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return Ok(None);
            }
            Some(b',') => self.at += 1,
            _ => {}
        }
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a key"));
        }
        let start = self.at + 1;
        self.string()?;
        let key = &self.text[start..self.at - 1];
        if self.peek() != Some(b':') {
            return Err(self.error("expected a colon"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Skips a quoted string.
    fn string(&mut self) -> Result<(), InvalidFields> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        self.is_escaped = false;
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            match memchr2(b'"', b'\\', rest) {
                Some(i) if rest[i] == b'"' => {
                    self.at += i + 1;
                    return Ok(());
                }
                Some(i) => {
                    self.is_escaped = true;
                    self.at += i + 2;
                }
                None => return Err(self.error("unexpected end of JSON input")),
            }
        }
    }

    /// Skips a value of any kind.
    fn skip(&mut self) -> Result<(), InvalidFields> {
        self.peek();
        if self.text.as_bytes()[self.at..].starts_with(b"{}") {
            self.at += 2;
            return Ok(());
        }
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return Ok(()),
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' if depth == 0 => return Ok(()),
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.error("unexpected end of JSON input"))
    }
}
