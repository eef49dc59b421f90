//! Paths to fields of a schema: `.spec.replicas`, and in rules also `.metadata.labels['a']`.

use crate::schema::{Additional, Node};

/// A field that was found.
#[derive(Debug)]
pub(crate) struct Found<'n> {
    /// As errors write it: `spec.labels[a]`.
    pub(crate) text: String,
    /// The schema; none for a field of any type.
    pub(crate) node: Option<&'n Node>,
}

/// The treatment of names in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brackets {
    Allowed,
    Refused,
}

/// Follows a path through a schema, or returns the reason for which that is not possible.
pub(crate) fn find<'n>(path: &str, root: &'n Node, brackets: Brackets) -> Result<Found<'n>, String> {
    const END: &str = "unexpected end of JSON path";
    let mut found = Found { text: String::new(), node: Some(root) };
    let mut tokens = tokens(path);
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or(END)?.to_owned(),
            "[" if brackets == Brackets::Refused => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let name = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                unescape(name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?)?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        step(&mut found, &name)?;
        if token == "[" {
            match tokens.next().ok_or(END)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok(found)
}

/// Goes to a named field, or to any field where none are named.
fn step(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    const INVALID: &str = "does not refer to a valid field";
    let node = found.node.ok_or(INVALID)?;
    if !node.properties.is_empty() {
        found.node = Some(node.property(name).ok_or(INVALID)?);
        if !found.text.is_empty() {
            found.text.push('.');
        }
        found.text.push_str(name);
        return Ok(());
    }
    found.node = match &node.additional {
        Additional::Absent => return Err(INVALID.to_owned()),
        Additional::Bool(_) => None,
        Additional::Schema(node) => Some(node),
    };
    found.text.push_str(&format!("[{name}]"));
    Ok(())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            Some(c) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
            None => '\\',
        });
    }
    Ok(out)
}

/// Delimiters, quoted texts and the texts between them.
pub fn tokens(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let end = match rest.bytes().next()? {
            b'.' | b'[' | b']' => 1,
            b'\'' => quoted_length(rest),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

/// The length of the quoted text at the beginning, with both quotes.
fn quoted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let closing = (1..bytes.len()).find(|i| bytes[*i] == b'\'' && bytes[i - 1] != b'\\');
    closing.map_or(text.len(), |i| i + 1)
}
