//! JSON text to `Value`.
//!
//! Errors are worded as in Go's `encoding/json`, since they reach users. Invalid UTF-8 is
//! replaced, as in Go. Nesting is limited so that no input can exhaust the stack. The `fieldsV1` of the document's own
//! managedFields are kept as raw text: they are the bulk of most objects and rarely needed as a tree. Members of that name
//! elsewhere are ordinary ones.
//!
//! Time and memory are linear in the text: paths are formatted only for findings, and these are limited in number and
//! size.

use std::borrow::Cow;

use memchr::memchr3;
use thiserror::Error;

use super::order::Order;
use super::scan::plain_run;
use crate::value::{Map, Str, Value};

/// Maximum depth of the input. Far beyond any real object, far below the limit of the stack.
pub(crate) const MAX_DEPTH: usize = 256;

/// Maximum number of reported duplicates, as upstream.
const MAX_DUPLICATES: usize = 100;

/// Maximum length of all reported paths together: a key can be as long as the text.
pub(crate) const MAX_FINDINGS_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    #[error("invalid character {} {context}", quote(*.found))]
    InvalidCharacter { found: char, context: &'static str },
    #[error("exceeded max depth")]
    TooDeep,
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberRange(Str),
}

/// The limit of a number's text in an error.
const MAX_SHOWN_NUMBER: usize = 64;

/// A character as Go quotes it in its JSON errors.
fn quote(c: char) -> String {
    match c {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c if (c as u32) < 0x20 || c == '\u{7f}' => match c {
            '\n' => r"'\n'".to_owned(),
            '\r' => r"'\r'".to_owned(),
            '\t' => r"'\t'".to_owned(),
            c => format!("'\\x{:02x}'", c as u32),
        },
        c => format!("'{c}'"),
    }
}

/// A duplicate key of an object: its path, as Kubernetes' strict decoder prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    pub path: String,
}

/// Parses one JSON document; white space may surround it.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    parse_reporting(text, None)
}

/// Parses a list, or a frame of a watch, whose objects have managedFields.
pub fn parse_envelope(text: &[u8]) -> Result<Value, ParseError> {
    let text = String::from_utf8_lossy(text);
    let mut parser = Parser { is_envelope: true, ..Parser::new(&text) };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.peek().is_some() {
        return Err(parser.unexpected("after top-level value"));
    }
    Ok(value)
}

/// Parses one JSON document, noting each duplicate key.
pub fn parse_reporting(text: &[u8], duplicates: Option<&mut Vec<Duplicate>>) -> Result<Value, ParseError> {
    parse_document(text, false, duplicates)
}

fn parse_document(
    text: &[u8],
    keeps_literals: bool,
    duplicates: Option<&mut Vec<Duplicate>>,
) -> Result<Value, ParseError> {
    // Nearly all text is valid UTF-8; only invalid text is copied.
    let text = match std::str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(text),
    };
    let mut parser = Parser { keeps_literals, ..Parser::new(&text) };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.peek().is_some() {
        return Err(parser.unexpected("after top-level value"));
    }
    if let (true, Some(found)) = (parser.is_doubled, duplicates) {
        // Duplicates are rare, so their paths are found by parsing a second time.
        let _ = Parser { keeps_literals, duplicates: Some(found), ..Parser::new(&text) }.value(0);
    }
    Ok(value)
}

/// Parses the document of an object that will be conformed to a type, noting each duplicate key.
///
/// Numbers that a tree cannot hold as they are written (`1e400`, `1E2`, twenty digits) stay text: quantities are exact,
/// errors show the text, and the type decides if the value is too large. Conforming leaves none of them. Values of one key
/// are joined, as upstream decodes them into one field.
pub fn parse_literally(text: &[u8], duplicates: &mut Vec<Duplicate>) -> Result<Value, ParseError> {
    parse_document(text, true, Some(duplicates))
}

/// Parses a document that was parsed before once more, reporting each member to `order`.
pub(super) fn visit(text: &[u8], order: &mut Order) {
    let text = String::from_utf8_lossy(text);
    let mut parser = Parser { keeps_literals: true, order: Some(order), ..Parser::new(&text) };
    // Members before an error are reported.
    let _ = parser.value(0);
}

const TRUE_CONTEXTS: [&str; 3] =
    ["in literal true (expecting 'r')", "in literal true (expecting 'u')", "in literal true (expecting 'e')"];
const FALSE_CONTEXTS: [&str; 4] = [
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL_CONTEXTS: [&str; 3] =
    ["in literal null (expecting 'u')", "in literal null (expecting 'l')", "in literal null (expecting 'l')"];

/// The value of a key that occurs several times in an object, of at least one value.
///
/// Upstream decodes all of them into one field: objects are merged, and lists item by item. All values are joined at once, so
/// that many of them take no more time than their sorting.
fn joined(mut values: Vec<Value>) -> Value {
    let Some(last) = values.pop() else { return Value::Null };
    match last {
        Value::Object(last) => {
            let replaced = values.iter().rposition(|value| !matches!(value, Value::Object(_)));
            let earlier = values.drain(replaced.map_or(0, |i| i + 1)..);
            let maps =
                earlier.filter_map(|value| if let Value::Object(map) = value { Some(map) } else { None });
            let entries = maps.chain([last]).flatten().collect();
            Value::Object(Map::from_unsorted(entries, |_, values| joined(values)))
        }
        Value::Array(last) => {
            let replaced = values.iter().rposition(|value| !matches!(value, Value::Array(_)));
            let earlier = values.drain(replaced.map_or(0, |i| i + 1)..);
            let mut items: Vec<Vec<Value>> = last.iter().map(|_| Vec::new()).collect();
            for list in
                earlier.filter_map(|value| if let Value::Array(list) = value { Some(list) } else { None })
            {
                for (place, item) in items.iter_mut().zip(list) {
                    place.push(item);
                }
            }
            let joined_items = items.into_iter().zip(last).map(|(mut values, item)| {
                values.push(item);
                joined(values)
            });
            Value::Array(joined_items.collect())
        }
        last => last,
    }
}

/// Places on the way to the fields of managers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Elsewhere,
    Metadata,
    ManagedFields,
}

enum Step {
    Key(Str),
    Index(usize),
}

struct Parser<'a, 'd> {
    text: &'a str,
    at: usize,
    /// True if a key occurred twice in one object.
    is_doubled: bool,
    /// The place in the document, as far as it is on the way to managedFields.
    place: Place,
    /// The depth of the object whose managedFields are kept as text.
    base: usize,
    is_envelope: bool,
    /// Numbers that a tree cannot hold as they are written stay text.
    keeps_literals: bool,
    duplicates: Option<&'d mut Vec<Duplicate>>,
    order: Option<&'d mut Order>,
    path: Vec<Step>,
    /// Members of the objects being read, innermost last: each object is given exactly the room it needs
    /// once it is whole.
    members: Vec<(Str, Value)>,
}

impl<'a, 'd> Parser<'a, 'd> {
    fn new(text: &'a str) -> Parser<'a, 'd> {
        Parser {
            text,
            at: 0,
            is_doubled: false,
            place: Place::Elsewhere,
            base: 0,
            is_envelope: false,
            keeps_literals: false,
            duplicates: None,
            order: None,
            path: Vec::new(),
            members: Vec::new(),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The error for the byte at the current position.
    fn unexpected(&self, context: &'static str) -> ParseError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => ParseError::InvalidCharacter { found, context },
            None => ParseError::UnexpectedEnd,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth).map(Value::Object),
            Some(b'[') => self.array(depth).map(Value::Array),
            Some(b'"') => self.text().map(Value::String),
            Some(b't') => self.literal("true", &TRUE_CONTEXTS, Value::Bool(true)),
            Some(b'f') => self.literal("false", &FALSE_CONTEXTS, Value::Bool(false)),
            Some(b'n') => self.literal("null", &NULL_CONTEXTS, Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// One of the three words, whose first letter was seen. `contexts` are the errors at each of the others.
    fn literal(&mut self, word: &str, contexts: &[&'static str], value: Value) -> Result<Value, ParseError> {
        self.at += 1;
        for (byte, context) in word.bytes().skip(1).zip(contexts) {
            if self.peek() != Some(byte) {
                return Err(self.unexpected(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Map, ParseError> {
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Map::new());
        }
        let first = self.members.len();
        let mut is_sorted = true;
        loop {
            let key = self.key()?;
            let value = match self.place {
                Place::ManagedFields if depth == self.base + 3 && key.is("fieldsV1") => self.fields()?,
                _ => self.placed_member(&key, depth)?,
            };
            is_sorted &= self.members.len() == first || self.members.last().is_some_and(|last| last.0 < key);
            self.members.push((key, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
        let entries = self.members.split_off(first);
        if is_sorted {
            return Ok(Map::from_sorted(entries));
        }
        let joins = self.keeps_literals;
        let (doubled, duplicates, path) = (&mut self.is_doubled, &mut self.duplicates, &self.path);
        Ok(Map::from_unsorted(entries, |key, mut values| {
            *doubled = true;
            if let Some(duplicates) = duplicates
                && duplicates.len() < MAX_DUPLICATES
                && duplicates.iter().map(|found| found.path.len()).sum::<usize>() < MAX_FINDINGS_BYTES
            {
                duplicates.push(Duplicate { path: path_to(path, key) });
            }
            if joins { joined(values) } else { values.pop().unwrap_or_default() }
        }))
    }

    /// A member, with its place noted.
    fn placed_member(&mut self, key: &Str, depth: usize) -> Result<Value, ParseError> {
        if depth > self.base + 1 {
            return self.member(key, depth);
        }
        let (place, base) = (self.place, self.base);
        if depth == base && key.is("metadata") {
            self.place = Place::Metadata;
        } else if depth == base + 1 && place == Place::Metadata && key.is("managedFields") {
            self.place = Place::ManagedFields;
        } else if self.is_envelope && depth == 0 && key.is("object") {
            self.base = 1;
        } else if self.is_envelope && depth == 0 && key.is("items") {
            self.base = 2;
        } else {
            self.place = Place::Elsewhere;
        }
        let value = self.member(key, depth);
        (self.place, self.base) = (place, base);
        value
    }

    fn member(&mut self, key: &Str, depth: usize) -> Result<Value, ParseError> {
        if !self.keeps_path() {
            return self.value(depth + 1);
        }
        if let Some(order) = &mut self.order {
            order.enter_member(key);
        }
        self.path.push(Step::Key(key.clone()));
        let value = self.value(depth + 1);
        self.leave();
        value
    }

    /// Returns true if the caller needs the paths of members.
    fn keeps_path(&self) -> bool {
        self.duplicates.is_some() || self.order.is_some()
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, ParseError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(items);
        }
        loop {
            let item = match self.keeps_path() {
                false => self.value(depth + 1)?,
                true => self.item(items.len(), depth)?,
            };
            items.push(item);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(items);
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn item(&mut self, index: usize, depth: usize) -> Result<Value, ParseError> {
        if let Some(order) = &mut self.order {
            order.enter_item(index);
        }
        self.path.push(Step::Index(index));
        let item = self.value(depth + 1);
        self.leave();
        item
    }

    fn leave(&mut self) {
        self.path.pop();
        if let Some(order) = &mut self.order {
            order.leave();
        }
    }

    /// Checks the fields of a manager and keeps their text instead of a tree. Their depth counts by itself: they are as deep as
    /// the object that the server writes them into.
    fn fields(&mut self) -> Result<Value, ParseError> {
        self.skip_space();
        if self.peek() != Some(b'{') {
            return self.value(0);
        }
        let start = self.at;
        if let Some(end) = end_of_fields(&self.bytes()[start..], MAX_DEPTH + 1) {
            self.at += end;
            return Ok(Value::Raw(Str::new(&self.text[start..self.at])));
        }
        self.pass(0)?;
        let text = &self.text[start..self.at];
        if !text.bytes().any(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
            return Ok(Value::Raw(Str::new(text)));
        }
        let tree = Parser { base: usize::MAX - 3, ..Parser::new(text) }.value(0)?;
        Ok(Value::Raw(super::write_to_string(&tree).into()))
    }

    /// Checks a value without keeping it; it refuses exactly what `value` refuses.
    fn pass(&mut self, depth: usize) -> Result<(), ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        self.skip_space();
        let (open, close) = match self.peek() {
            Some(b'{') => (b'{', b'}'),
            Some(b'[') => (b'[', b']'),
            _ => return self.value(depth).map(|_| ()),
        };
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            if open == b'{' {
                self.key()?;
            }
            self.pass(depth + 1)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ if open == b'{' => return Err(self.unexpected("after object key:value pair")),
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    /// A member's key and the colon after it.
    fn key(&mut self) -> Result<Str, ParseError> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.text()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(key)
    }

    /// A string, at its first quote.
    fn text(&mut self) -> Result<Str, ParseError> {
        let start = self.at + 1;
        self.at = start + plain_run(&self.bytes()[start..]);
        match self.peek() {
            Some(b'"') => {
                let text = &self.text[start..self.at];
                self.at += 1;
                Ok(Str::new(text))
            }
            Some(b'\\') => self.escaped_string(start).map(Str::from),
            Some(_) => Err(self.unexpected("in string literal")),
            None => Err(ParseError::UnexpectedEnd),
        }
    }

    /// The rest of a string in which an escape was found at `self.at`.
    fn escaped_string(&mut self, start: usize) -> Result<String, ParseError> {
        let mut out = String::from(&self.text[start..self.at]);
        loop {
            let run = self.at;
            let rest = &self.bytes()[run..];
            let Some(stop) = memchr3(b'"', b'\\', b'\n', rest) else { return Err(ParseError::UnexpectedEnd) };
            if let Some(bad) = rest[..stop].iter().position(|b| *b < 0x20) {
                self.at = run + bad;
                return Err(self.unexpected("in string literal"));
            }
            self.at = run + stop;
            out.push_str(&self.text[run..self.at]);
            match rest[stop] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let Some(byte) = self.peek() else { return Err(ParseError::UnexpectedEnd) };
        let c = match byte {
            b'"' | b'\\' | b'/' => byte as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let first = self.hex4()?;
                return self.surrogate(first);
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex4(&mut self) -> Result<u32, ParseError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else { return Err(ParseError::UnexpectedEnd) };
            let Some(digit) = (byte as char).to_digit(16) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Joins a surrogate pair; a lone half becomes the replacement character, as in Go.
    fn surrogate(&mut self, first: u32) -> Result<char, ParseError> {
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if (0xD800..0xDC00).contains(&first) && self.bytes()[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xDC00..0xE000).contains(&second) {
                let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        let text = &self.text[start..self.at];
        if integer && let Ok(int) = text.parse() {
            return Ok(Value::Int(int));
        }
        let number = text.parse::<f64>();
        let is_exact = |float: f64| super::write_to_string(&Value::Float(float)) == text;
        if self.keeps_literals
            && text.len() <= MAX_SHOWN_NUMBER
            && !number.as_ref().is_ok_and(|f| is_exact(*f))
        {
            return Ok(Value::Raw(Str::new(text)));
        }
        match number {
            Ok(float) if float.is_finite() => Ok(Value::Float(float)),
            _ => Err(ParseError::NumberRange(Str::new(&text[..text.len().min(MAX_SHOWN_NUMBER)]))),
        }
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }
}

/// The end of an object that consists only of keys and such objects, without spaces, as nearly all field sets do.
/// `None` if the text is not one, or is nested deeper than that many levels.
fn end_of_fields(text: &[u8], levels: usize) -> Option<usize> {
    let (mut at, mut depth) = (0, 0);
    loop {
        // At the value of a member.
        if text.get(at) != Some(&b'{') || depth == levels {
            return None;
        }
        (at, depth) = (at + 1, depth + 1);
        if text.get(at) == Some(&b'}') {
            // It has no members, and may be the last of those around it.
            while text.get(at) == Some(&b'}') {
                (at, depth) = (at + 1, depth - 1);
                if depth == 0 {
                    return Some(at);
                }
            }
            if text.get(at) != Some(&b',') {
                return None;
            }
            at += 1;
        }
        // At the key of a member.
        if text.get(at) != Some(&b'"') {
            return None;
        }
        at += 1;
        loop {
            at += plain_run(&text[at..]);
            match text.get(at..at + 2)? {
                b"\":" => break,
                // Keys of list items usually contain escaped quotes.
                b"\\\"" | b"\\\\" => at += 2,
                _ => return None,
            }
        }
        at += 2;
    }
}

fn path_to(path: &[Step], key: &str) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Index(i) => out.push_str(&format!("[{i}]")),
        }
    }
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(key);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[track_caller]
    fn fails(text: &str, message: &str) {
        assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
    }

    #[test]
    fn documents() {
        let parsed =
            parse(br#" {"b": [1, -2.5, true, null], "a": "x\u00e9\ud83d\ude00\n", "c": {}} "#).unwrap();
        let Value::Object(map) = &parsed else { panic!("{parsed:?}") };
        assert_eq!(map.keys().map(Str::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(parsed.get("a"), Some(&Value::from("xé😀\n")));
        assert_eq!(parsed.get("b").unwrap().as_array().unwrap()[1], Value::Float(-2.5));
    }

    #[test]
    fn raw_members_keep_their_text() {
        let managed = r#"{"managedFields": [{"fieldsV1": {"f:a": {}, ".": {"v:\"x\"": {}}}}]}"#;
        let raw = Value::Raw(r#"{".":{"v:\"x\"":{}},"f:a":{}}"#.into());
        let fields =
            |object: &Value| object.items_at(&["metadata", "managedFields"])[0].get("fieldsV1").cloned();
        let object = format!(r#"{{"metadata":{managed},"spec":{{"metadata":{managed},"fieldsV1":{{}}}}}}"#);
        let parsed = parse(object.as_bytes()).unwrap();
        assert_eq!(fields(&parsed), Some(raw.clone()));
        assert!(
            matches!(fields(parsed.get("spec").unwrap()), Some(Value::Object(_))),
            "not the document's own"
        );
        assert_eq!(parsed.at(&["spec", "fieldsV1"]), Some(&Value::object()));
        let frame = parse_envelope(format!(r#"{{"type":"ADDED","object":{object}}}"#).as_bytes()).unwrap();
        assert_eq!(fields(frame.get("object").unwrap()), Some(raw.clone()));
        let list =
            parse_envelope(format!(r#"{{"metadata":{{}},"items":[{object},{object}]}}"#).as_bytes()).unwrap();
        assert_eq!(fields(&list.items_at(&["items"])[1]), Some(raw));
    }

    /// An attack: an object that is accepted, stored with its managedFields, and then cannot be read.
    #[test]
    fn fields_may_be_as_deep_as_objects() {
        let nested = |open: &str, leaf: &str, depth: usize| {
            format!("{}{leaf}{}", open.repeat(depth), "}".repeat(depth))
        };
        let fields = nested(r#"{".":{},"f:a":"#, "{}", MAX_DEPTH);
        let spaced = fields.replace(',', ", ");
        let object = |fields: &str| {
            let spec = nested(r#"{"a":"#, "1", MAX_DEPTH - 1);
            format!(r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{fields}}}]}},"spec":{spec}}}"#)
        };
        for text in [&fields, &spaced] {
            let parsed = parse(object(text).as_bytes()).unwrap();
            let found = parsed.items_at(&["metadata", "managedFields"])[0].get("fieldsV1");
            assert_eq!(found, Some(&Value::Raw(Str::new(&fields))));
        }
        let deeper = nested(r#"{"f:a":"#, "{}", MAX_DEPTH + 1);
        for deeper in [deeper.replace(':', ": "), deeper] {
            assert_eq!(parse(object(&deeper).as_bytes()), Err(ParseError::TooDeep));
        }
    }

    #[test]
    fn raw_members_are_checked() {
        for bad in [
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"a"::,}}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{]}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"a":nul}}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"a":1}"#,
            "{\"a\":1e400}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_of_one_key_are_joined_in_objects_that_have_types() {
        let joined = |text: &str| parse_literally(text.as_bytes(), &mut Vec::new()).unwrap();
        let table = [
            (
                r#"{"a":{"x":1,"y":{"p":1}},"a":{"y":{"q":2},"z":3}}"#,
                r#"{"a":{"x":1,"y":{"p":1,"q":2},"z":3}}"#,
            ),
            (r#"{"a":[{"x":1},{"x":2}],"a":[{"y":3}]}"#, r#"{"a":[{"x":1,"y":3}]}"#),
            (r#"{"a":{"x":1},"a":5,"a":{"y":2}}"#, r#"{"a":{"y":2}}"#),
            (r#"{"a":{"x":1},"a":null}"#, r#"{"a":null}"#),
            (r#"{"a":{"x":1},"a":{"x":2},"a":{"x":3}}"#, r#"{"a":{"x":3}}"#),
        ];
        for (text, expected) in table {
            assert_eq!(joined(text), parse(expected.as_bytes()).unwrap(), "{text}");
        }
        let text = r#"{"a":{"x":1},"a":{"y":2}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), parse(br#"{"a":{"y":2}}"#).unwrap());
    }

    #[test]
    fn duplicates_are_reported_with_their_path() {
        let mut found = Vec::new();
        let text = br#"{"a":{"x":1,"x":2},"l":[{"y":1},{"y":1,"y":2}],"a":{}}"#;
        let parsed = parse_reporting(text, Some(&mut found)).unwrap();
        assert_eq!(found.iter().map(|d| d.path.as_str()).collect::<Vec<_>>(), ["a.x", "l[1].y", "a"]);
        assert_eq!(parsed.get("a"), Some(&value!({})));
    }

    #[test]
    fn numbers_stay_text_only_if_a_tree_cannot_hold_them() {
        let mut found = Vec::new();
        let text = br#"{"a":1e400,"b":[1E2,1.50,-1e400,99999999999999999999],"c":[1,-2,1.5,1e+21,0.000001],"a":1.0}"#;
        let parsed = parse_literally(text, &mut found).unwrap();
        assert_eq!(found, [Duplicate { path: "a".to_owned() }]);
        assert_eq!(parsed.get("a"), Some(&Value::Raw("1.0".into())));
        let texts = ["1E2", "1.50", "-1e400", "99999999999999999999"].map(|text| Value::Raw(text.into()));
        assert_eq!(parsed.get("b").unwrap().as_array().unwrap(), texts);
        assert_eq!(parsed.get("c"), parse(b"[1,-2,1.5,1e21,0.000001]").as_ref().ok());
        assert_eq!(parsed.get("a").unwrap().go_kind(), "number");
        // A long text is not kept: its value is, or it is an error.
        let zeros = format!("1{}", "0".repeat(100));
        assert_eq!(parse_literally(zeros.as_bytes(), &mut found), Ok(Value::Float(1e100)));
        assert!(parse_literally(format!("{zeros}e400").as_bytes(), &mut found).is_err());
        assert!(parse(b"1e400").is_err());
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        fails("", "unexpected end of JSON input");
        fails("{", "unexpected end of JSON input");
        fails("{a", "invalid character 'a' looking for beginning of object key string");
        fails(r#"{"a" 1}"#, "invalid character '1' after object key");
        fails(r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair");
        fails("[1 2]", "invalid character '2' after array element");
        fails("{} x", "invalid character 'x' after top-level value");
        fails("\"a\nb\"", r"invalid character '\n' in string literal");
        fails("-", "unexpected end of JSON input");
        fails("nul", "unexpected end of JSON input");
        fails(&"[".repeat(100_000), "exceeded max depth");
    }
}
