//! `Value` to YAML text: block style, keys in upstream's order, text quoted only where it must be, long
//! lines broken at spaces.

use std::cmp::Ordering;
use std::fmt::{Display, LowerExp};

use super::resolve::{self, Meaning};
use crate::json;
use crate::value::{Map, Str, Value};

/// Lines are broken at the first space beyond this column.
const WIDTH: usize = 80;

/// A longer key needs a `?` before it.
const LONGEST_SIMPLE_KEY: usize = 128;

/// A document, line break included.
pub fn to_string(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    emitter.node(value, 0, 2);
    if emitter.column > 0 {
        emitter.out.push('\n');
    }
    emitter.out
}

/// The position of a scalar in the document.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    SimpleKey,
    Other,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

struct Emitter {
    out: String,
    /// In characters.
    column: usize,
}

impl Emitter {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column = if c == '\n' { 0 } else { self.column + 1 };
    }

    fn put_str(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    /// Starts a line, unless one has just been started, and indents it.
    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.put('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
    }

    /// Writes a value at the cursor. Collections have their entries at `indent`; further lines of a scalar
    /// are indented by `continuation`.
    fn node(&mut self, value: &Value, indent: usize, continuation: usize) {
        match value {
            Value::Object(map) if map.is_empty() => self.put_str("{}"),
            Value::Object(map) => self.mapping(map, indent),
            Value::Array(items) if items.is_empty() => self.put_str("[]"),
            Value::Array(items) => self.sequence(items, indent),
            Value::String(text) => self.scalar(text, continuation, Role::Other),
            Value::Null => self.put_str("null"),
            Value::Bool(bool) => self.put_str(if *bool { "true" } else { "false" }),
            Value::Int(int) => self.put_str(itoa::Buffer::new().format(*int)),
            Value::Float(float) => self.put_str(&number(*float)),
            Value::Raw(text) => {
                // Raw text is JSON that was parsed before.
                let tree = json::parse(text.as_bytes()).unwrap_or_default();
                self.node(&tree, indent, continuation);
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.line(indent);
            }
            self.put_str("- ");
            self.node(item, indent + 2, indent + 2);
        }
    }

    fn mapping(&mut self, map: &Map, indent: usize) {
        for (i, (key, value)) in in_key_order(map.iter().collect()).into_iter().enumerate() {
            if i > 0 {
                self.line(indent);
            }
            let simple = key.len() <= LONGEST_SIMPLE_KEY && !key.contains(is_break);
            if !simple {
                self.put_str("? ");
                self.scalar(key, indent + 2, Role::Other);
                self.line(indent);
                self.put_str(": ");
                self.node(value, indent + 2, indent + 2);
                continue;
            }
            self.scalar(key, indent + 2, Role::SimpleKey);
            self.put(':');
            self.member(value, indent);
        }
    }

    /// A value after its key: collections start on a line of their own, lists without further indentation.
    fn member(&mut self, value: &Value, indent: usize) {
        let parsed;
        let value = match value {
            Value::Raw(text) => {
                parsed = json::parse(text.as_bytes()).unwrap_or_default();
                &parsed
            }
            other => other,
        };
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.line(indent + 2);
                self.mapping(map, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                self.line(indent);
                self.sequence(items, indent);
            }
            _ => {
                self.put(' ');
                self.node(value, indent + 2, indent + 2);
            }
        }
    }

    fn scalar(&mut self, text: &str, indent: usize, role: Role) {
        let breaks = role == Role::Other;
        match style(text, role) {
            Style::Plain => self.plain(text, indent, breaks),
            Style::SingleQuoted => self.single_quoted(text, indent, breaks),
            Style::DoubleQuoted => self.double_quoted(text, indent, breaks),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn plain(&mut self, text: &str, indent: usize, breaks: bool) {
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let long = breaks && !after_space && self.column > WIDTH;
            if c == ' ' && long && chars.peek() != Some(&' ') {
                self.line(indent);
            } else {
                self.put(c);
            }
            after_space = c == ' ';
        }
    }

    fn single_quoted(&mut self, text: &str, indent: usize, breaks: bool) {
        self.put('\'');
        let (mut after_space, mut after_break) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            if c == ' ' {
                let long = breaks && !after_space && self.column > WIDTH;
                if long && at > 0 && next.is_some_and(|n| n != ' ') {
                    self.line(indent);
                } else {
                    self.put(c);
                }
                (after_space, after_break) = (true, false);
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.put('\n');
                }
                self.put(c);
                (after_space, after_break) = (false, true);
            } else {
                if after_break {
                    self.line(indent);
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                (after_space, after_break) = (false, false);
            }
        }
        if after_break {
            self.line(indent);
        }
        self.put('\'');
    }

    fn double_quoted(&mut self, text: &str, indent: usize, breaks: bool) {
        self.put('"');
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escape(c);
                after_space = false;
            } else if c == ' ' {
                let next = chars.peek().map(|(_, c)| *c);
                let long = breaks && !after_space && self.column > WIDTH;
                if let Some(next) = next
                    && long
                    && at > 0
                {
                    self.line(indent);
                    if next == ' ' {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.put('"');
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = c as u32;
                let escaped = match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                return self.put_str(&escaped);
            }
        };
        self.put('\\');
        self.put(short);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.put('2');
        }
        let mut ends = text.chars().rev();
        match (ends.next().is_some_and(is_break), ends.next()) {
            (false, _) => self.put('-'),
            (true, None) => self.put('+'),
            (true, Some(before)) if is_break(before) => self.put('+'),
            (true, Some(_)) => {}
        }
        self.put('\n');
        let mut line_start = true;
        for c in text.chars() {
            if is_break(c) {
                self.put(c);
                self.column = 0;
                line_start = true;
            } else {
                if line_start {
                    self.line(indent);
                }
                self.put(c);
                line_start = false;
            }
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns true for characters that upstream's emitter writes unescaped. Characters beyond 16 bits are not among them.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn style(text: &str, role: Role) -> Style {
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if resolve::plain(text) == Meaning::Text && !resolve::is_base_60(text) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    };
    let traits = Traits::of(text);
    match wanted {
        Style::Plain if traits.plain => Style::Plain,
        Style::Plain if traits.single_quoted => Style::SingleQuoted,
        Style::Literal if traits.literal && role == Role::Other => Style::Literal,
        _ => Style::DoubleQuoted,
    }
}

/// The styles that can represent a text.
struct Traits {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl Traits {
    fn of(text: &str) -> Traits {
        if text.is_empty() {
            return Traits { plain: true, single_quoted: true, literal: false };
        }
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut break_space, mut space_break, mut breaks) = (false, false, false, false);
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let blank_follows = chars.peek().is_none_or(|n| *n == ' ' || *n == '\t' || is_break(*n));
            let blank_before = before.is_none_or(|b| b == ' ' || b == '\t' || is_break(b));
            indicator |= match c {
                '?' | '-' if before.is_none() => blank_follows,
                ':' => blank_follows,
                '#' => blank_before,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    before.is_none()
                }
                _ => false,
            };
            // Line breaks of other alphabets would be folded when parsed.
            special |= !is_printable(c) || (is_break(c) && c != '\n');
            breaks |= is_break(c);
            break_space |= c == ' ' && before.is_some_and(is_break);
            space_break |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let edges = edge(text.chars().next()) || edge(before);
        Traits {
            plain: !(indicator || special || breaks || break_space || space_break || edges),
            single_quoted: !(special || break_space || space_break),
            literal: !(special || space_break || before == Some(' ')),
        }
    }
}

/// A number as upstream converts it from JSON to YAML: whole ones are integers.
fn number(float: f64) -> String {
    let spelled = json::write_to_string(&Value::Float(float));
    match resolve::plain(&spelled) {
        Meaning::Int(_) | Meaning::Large(_) => spelled,
        _ => go_float(float),
    }
}

/// Go's shortest form (`%g`): with an exponent below -4 and from 6 on.
pub(super) fn go_float(float: impl Display + LowerExp) -> String {
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A merge sort. Upstream's order of keys has cycles (`2`, `12`, `1a`), which the standard library's sort
/// may refuse with a panic.
fn in_key_order<'v>(mut left: Vec<(&'v Str, &'v Value)>) -> Vec<(&'v Str, &'v Value)> {
    if left.len() < 2 {
        return left;
    }
    let right = left.split_off(left.len() / 2);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut left = in_key_order(left).into_iter().peekable();
    for entry in in_key_order(right) {
        while let Some(earlier) = left.next_if(|l| key_order(l.0, entry.0) != Ordering::Greater) {
            merged.push(earlier);
        }
        merged.push(entry);
    }
    merged.extend(left);
    merged
}

/// Upstream's order of keys: numbers inside them count as numbers, letters come last.
fn key_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(i) = a.iter().zip(&b).position(|(x, y)| x != y) else { return a.len().cmp(&b.len()) };
    match (a[i].is_alphabetic(), b[i].is_alphabetic()) {
        (true, true) => return a[i].cmp(&b[i]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let within_number = (a[i] == '0' || b[i] == '0')
        && a[..i].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let start = u64::from(within_number);
    let run = |text: &[char]| {
        let digits = text[i..].iter().map_while(|c| c.to_digit(10));
        digits.fold((start, 0usize), |(n, len), d| (n.wrapping_mul(10).wrapping_add(d.into()), len + 1))
    };
    run(&a).cmp(&run(&b)).then(a[i].cmp(&b[i]))
}
