//! YAML text to `Value`.
//!
//! Two steps: the parser's events become nodes, and nodes become values. Only the second expands aliases
//! and merges, and counts while it does: once almost everything comes from aliases, or they expand to more text
//! than a request may have, the document is refused.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::resolve::{self, Meaning};
use super::{Duplicate, YamlError};
use crate::json;
use crate::value::{Map, Str, Value};

/// Maximum depth of documents. Far beyond any real object, far below the limit of the stack.
const MAX_DEPTH: usize = 256;

/// Maximum size of all expanded aliases, in bytes of text: no less than the largest request body.
const MAX_ALIASED_BYTES: usize = 3 * 1024 * 1024;

/// Maximum number, and length, of reported duplicates.
const MAX_DUPLICATES: usize = 100;

/// Parses the first document. An empty text is null. Of equal keys the last one wins, and the others are added to
/// `duplicates`.
pub fn to_value(text: &[u8], duplicates: &mut Vec<Duplicate>) -> Result<Value, YamlError> {
    let text = std::str::from_utf8(text)
        .map_err(|_| YamlError::Content("invalid leading UTF-8 octet".to_owned()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.chars().any(is_control) {
        return Err(YamlError::Content("control characters are not allowed".to_owned()));
    }
    let document = Document::read(text)?;
    let Some(root) = document.root else { return Ok(Value::Null) };
    let mut expansion = Expansion {
        document: &document,
        duplicates,
        open: Vec::new(),
        depth: 0,
        decoded: 0,
        aliased: 0,
        aliased_bytes: 0,
    };
    expansion.value(root)
}

fn is_control(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{7e}' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

fn content(problem: impl Into<String>) -> YamlError {
    YamlError::Content(problem.into())
}

struct Document<'t> {
    nodes: Vec<Node<'t>>,
    root: Option<usize>,
}

struct Node<'t> {
    kind: NodeKind<'t>,
    /// Counted from one.
    line: usize,
}

enum NodeKind<'t> {
    Scalar {
        text: std::borrow::Cow<'t, str>,
        tag: Option<String>,
        plain: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values by turns.
    Mapping(Vec<usize>),
    Alias {
        target: usize,
        name: &'t str,
    },
}

impl<'t> Document<'t> {
    fn read(text: &'t str) -> Result<Document<'t>, YamlError> {
        let mut document = Document { nodes: Vec::new(), root: None };
        let mut anchors: HashMap<usize, usize> = HashMap::new();
        let mut open: Vec<usize> = Vec::new();
        let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, span) = next.map_err(|error| syntax(&error, text))?;
            let (kind, anchor, opens) = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    let plain = style == ScalarStyle::Plain;
                    (NodeKind::Scalar { text, tag: tag.map(|t| tag_name(&t)), plain }, anchor, false)
                }
                Event::SequenceStart(_, anchor, _) => (NodeKind::Sequence(Vec::new()), anchor, true),
                Event::MappingStart(_, anchor, _) => (NodeKind::Mapping(Vec::new()), anchor, true),
                Event::Alias(id) => {
                    let name = span.slice(text).unwrap_or_default().trim_start_matches('*');
                    let target = anchors.get(&id).copied();
                    let target = target.ok_or_else(|| unknown_anchor(name))?;
                    (NodeKind::Alias { target, name }, 0, false)
                }
                Event::UnresolvedAlias(name) => return Err(unknown_anchor(&name)),
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    continue;
                }
                Event::DocumentEnd => break,
                _ => continue,
            };
            let index = document.add(kind, &span, open.last().copied());
            if anchor != 0 {
                anchors.insert(anchor, index);
            }
            if opens {
                open.push(index);
            }
        }
        Ok(document)
    }

    fn add(&mut self, kind: NodeKind<'t>, span: &Span, parent: Option<usize>) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Node { kind, line: span.start.line() });
        match parent.map(|parent| &mut self.nodes[parent].kind) {
            Some(NodeKind::Sequence(children) | NodeKind::Mapping(children)) => children.push(index),
            _ => self.root = Some(index),
        }
        index
    }
}

fn tag_name(tag: &Tag) -> String {
    format!("{}{}", tag.handle(), tag.suffix())
}

fn unknown_anchor(name: &str) -> YamlError {
    content(format!("unknown anchor '{name}' referenced"))
}

/// The parser's error in the words of upstream's parser, where there is a counterpart.
fn syntax(error: &ScanError, text: &str) -> YamlError {
    let info = error.info();
    let unclosed = info.starts_with("unclosed bracket");
    let problem = match info.as_str() {
        // The text ends where a value must follow.
        _ if unclosed && text.trim_end().ends_with([':', ',', '{', '[']) => {
            "did not find expected node content"
        }
        "simple key expected ':'" => "could not find expected ':'",
        "misplaced bracket" => "did not find expected node content",
        "unclosed quote" => "found unexpected end of stream",
        "unclosed bracket '{'" => "did not find expected ',' or '}'",
        "unclosed bracket '['" => "did not find expected ',' or ']'",
        "while scanning a plain scalar, found a tab" => "found a tab character that violates indentation",
        other if other.starts_with("unexpected character") || other.starts_with("tab") => {
            "found character that cannot start any token"
        }
        other if other.starts_with("unexpected EOF while") => "did not find expected node content",
        other => match other.split_once(", ") {
            Some((context, problem)) if context.starts_with("while ") => problem,
            _ => other,
        },
    };
    // Upstream's scanner counts lines from one and its parser from zero; neither mentions the first. An
    // unterminated line is noticed on the next.
    let at = error.marker().line();
    let (line, first) = match problem {
        // The end of the text is on a line of its own.
        _ if unclosed => (text.lines().count(), 1),
        "could not find expected ':'" | "found a tab character that violates indentation" => (at + 1, 2),
        _ if problem.starts_with("did not find expected") => (at.saturating_sub(1), 1),
        _ => (at, 2),
    };
    if line < first { content(problem) } else { YamlError::Syntax { line, problem: problem.to_owned() } }
}

const EXCESSIVE: &str = "document contains excessive aliasing";

struct Expansion<'d, 't> {
    document: &'d Document<'t>,
    duplicates: &'d mut Vec<Duplicate>,
    /// The aliases being expanded.
    open: Vec<usize>,
    depth: usize,
    decoded: usize,
    aliased: usize,
    aliased_bytes: usize,
}

impl<'d> Expansion<'d, '_> {
    fn value(&mut self, index: usize) -> Result<Value, YamlError> {
        self.count()?;
        if self.depth > MAX_DEPTH {
            return Err(content("exceeded max depth"));
        }
        self.depth += 1;
        let document = self.document;
        let value = match &document.nodes[index].kind {
            NodeKind::Alias { target, name } => {
                self.enter(index, name)?;
                let value = self.value(*target);
                self.open.pop();
                value?
            }
            NodeKind::Scalar { text, tag, plain } => {
                self.count_bytes(text)?;
                scalar(text, tag.as_deref(), *plain)?
            }
            NodeKind::Sequence(children) => {
                let items: Result<Vec<_>, _> = children.iter().map(|child| self.value(*child)).collect();
                Value::Array(items?)
            }
            NodeKind::Mapping(children) => {
                let mut entries = Entries::default();
                self.mapping(children, &mut entries)?;
                Value::Object(entries.into_map())
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Upstream's limit: the larger the document, the less of it may come from aliases.
    fn count(&mut self) -> Result<(), YamlError> {
        const LOW: usize = 400_000;
        const HIGH: usize = 4_000_000;
        self.decoded += 1;
        self.aliased += usize::from(!self.open.is_empty());
        let allowed = match self.decoded {
            n if n <= LOW => 0.99,
            n if n >= HIGH => 0.10,
            n => 0.99 - 0.89 * ((n - LOW) as f64 / (HIGH - LOW) as f64),
        };
        let ratio = self.aliased as f64 / self.decoded as f64;
        if self.aliased > 100 && self.decoded > 1000 && ratio > allowed {
            return Err(content(EXCESSIVE));
        }
        Ok(())
    }

    /// Upstream counts only nodes, however large they are.
    fn count_bytes(&mut self, text: &str) -> Result<(), YamlError> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.aliased_bytes += text.len();
        if self.aliased_bytes > MAX_ALIASED_BYTES { Err(content(EXCESSIVE)) } else { Ok(()) }
    }

    fn enter(&mut self, alias: usize, name: &str) -> Result<(), YamlError> {
        if self.open.contains(&alias) {
            return Err(content(format!("anchor '{name}' value contains itself")));
        }
        self.open.push(alias);
        Ok(())
    }

    fn mapping(&mut self, children: &'d [usize], entries: &mut Entries) -> Result<(), YamlError> {
        let document = self.document;
        for pair in children.chunks_exact(2) {
            let (key_node, value_node) = (&document.nodes[pair[0]], pair[1]);
            if is_merge(key_node) {
                self.merge(value_node, entries)?;
                continue;
            }
            let key = self.key(pair[0])?;
            let value = self.value(value_node)?;
            if entries.insert(key.clone(), value) {
                self.report(document.nodes[value_node].line, &key);
            }
        }
        Ok(())
    }

    fn report(&mut self, line: usize, key: &Key) {
        let said: usize = self.duplicates.iter().map(|duplicate| duplicate.key.len()).sum();
        if self.duplicates.len() < MAX_DUPLICATES && said < json::MAX_FINDINGS_BYTES {
            self.duplicates.push(Duplicate { line, key: key.in_go() });
        }
    }

    /// A key as text: numbers and booleans are formatted, anything else is refused.
    fn key(&mut self, index: usize) -> Result<Key, YamlError> {
        self.count()?;
        let document = self.document;
        match &document.nodes[index].kind {
            NodeKind::Alias { target, name } => {
                self.enter(index, name)?;
                let key = self.key(*target);
                self.open.pop();
                key
            }
            NodeKind::Scalar { text, tag, plain } => {
                self.count_bytes(text)?;
                key_of(scalar(text, tag.as_deref(), *plain)?)
            }
            NodeKind::Sequence(_) => Err(content("invalid map key: a sequence")),
            NodeKind::Mapping(_) => Err(content("invalid map key: a mapping")),
        }
    }

    fn merge(&mut self, index: usize, entries: &mut Entries) -> Result<(), YamlError> {
        let document = self.document;
        match &document.nodes[index].kind {
            NodeKind::Sequence(children) => {
                // The first of several takes precedence: it is merged last.
                for child in children.iter().rev() {
                    self.merge_one(*child, entries)?;
                }
                Ok(())
            }
            _ => self.merge_one(index, entries),
        }
    }

    fn merge_one(&mut self, index: usize, entries: &mut Entries) -> Result<(), YamlError> {
        self.count()?;
        let document = self.document;
        let node = &document.nodes[index].kind;
        let (target, aliased) = match node {
            NodeKind::Alias { target, name } => {
                self.enter(index, name)?;
                (*target, true)
            }
            _ => (index, false),
        };
        let NodeKind::Mapping(children) = &document.nodes[target].kind else {
            return Err(content("map merge requires map or sequence of maps as the value"));
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(content("exceeded max depth"));
        }
        self.mapping(children, entries)?;
        self.depth -= 1;
        if aliased {
            self.open.pop();
        }
        Ok(())
    }
}

fn is_merge(node: &Node<'_>) -> bool {
    match &node.kind {
        NodeKind::Scalar { text, tag, plain } if text == "<<" => match tag.as_deref() {
            None => *plain,
            Some(tag) => tag == "tag:yaml.org,2002:merge",
        },
        _ => false,
    }
}

/// A mapping's entries in the order of the text, with an index of their keys.
#[derive(Default)]
struct Entries {
    list: Vec<(Str, Value)>,
    places: HashMap<Str, usize>,
}

impl Entries {
    /// Sets a key; returns true if it was set before.
    fn insert(&mut self, key: Key, value: Value) -> bool {
        match self.places.get(&key.text) {
            Some(place) => {
                self.list[*place].1 = value;
                true
            }
            None => {
                self.places.insert(key.text.clone(), self.list.len());
                self.list.push((key.text, value));
                false
            }
        }
    }

    fn into_map(self) -> Map {
        self.list.into_iter().collect()
    }
}

#[derive(Clone)]
struct Key {
    text: Str,
    is_string: bool,
}

impl Key {
    /// As Go prints it in errors: strings in quotes.
    fn in_go(&self) -> String {
        match self.is_string {
            true => json::write_to_string(&Value::String(self.text.clone())),
            false => self.text.to_string(),
        }
    }
}

fn key_of(value: Value) -> Result<Key, YamlError> {
    let text = match value {
        Value::String(text) => return Ok(Key { text, is_string: true }),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => super::write::go_float(float as f32),
        _ => return Err(YamlError::NullKey),
    };
    Ok(Key { text: Str::from(text), is_string: false })
}

fn scalar(text: &str, tag: Option<&str>, plain: bool) -> Result<Value, YamlError> {
    let Some(tag) = tag.and_then(|tag| tag.strip_prefix("tag:yaml.org,2002:")).or(match tag {
        Some(_) => Some("str"),
        None if plain => None,
        None => Some("str"),
    }) else {
        return interpret(resolve::plain(text), text);
    };
    let meaning = match tag {
        "str" => return Ok(Value::from(text)),
        "binary" => return binary(text),
        "bool" | "int" | "float" | "null" | "timestamp" => resolve::plain(text),
        _ => return Ok(Value::from(text)),
    };
    let meaning = match (tag, meaning) {
        ("float", Meaning::Int(int)) => Meaning::Float(int as f64),
        (_, meaning) if meaning.tag().trim_start_matches('!') == tag => meaning,
        (_, meaning) => {
            return Err(content(format!("cannot decode {} `{text}` as a !!{tag}", meaning.tag())));
        }
    };
    interpret(meaning, text)
}

fn interpret(meaning: Meaning, text: &str) -> Result<Value, YamlError> {
    Ok(match meaning {
        Meaning::Null => Value::Null,
        Meaning::Bool(bool) => Value::Bool(bool),
        Meaning::Int(int) => Value::Int(int),
        Meaning::Large(large) => Value::Float(large as f64),
        Meaning::Float(float) if float.is_nan() => return Err(YamlError::NotJson("NaN")),
        Meaning::Float(f64::INFINITY) => return Err(YamlError::NotJson("+Inf")),
        Meaning::Float(f64::NEG_INFINITY) => return Err(YamlError::NotJson("-Inf")),
        Meaning::Float(float) => whole(float),
        Meaning::Time | Meaning::Merge | Meaning::Text => Value::from(text),
    })
}

/// JSON spells a whole float without a point, which makes it an integer.
fn whole(float: f64) -> Value {
    let mut spelled = String::new();
    if float == float.trunc() && float.abs() < 1e21 && write!(spelled, "{float:.0}").is_ok() {
        return spelled.parse().map_or(Value::Float(float), Value::Int);
    }
    Value::Float(float)
}

fn binary(text: &str) -> Result<Value, YamlError> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map(|bytes| Value::from(String::from_utf8_lossy(&bytes).into_owned()))
        .map_err(|_| content("!!binary value contains invalid base64 data"))
}
