//! Parses templates. Quirks are upstream's: keys in quotes may not contain commas, a dot in them begins another field,
//! and a filter has at most one pair of quotes.
//!
//! A template within another (a key, an item of a union, a side of a filter) is shorter than it, so recursion ends;
//! `MAX_DEPTH` bounds it as well.

use super::{Bound, Filter, Node};

const MAX_DEPTH: usize = 16;

pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    Parser { input: text, at: 0, start: 0, depth: 0 }.template()
}

struct Parser<'t> {
    input: &'t str,
    at: usize,
    /// The start of the text that is not yet taken.
    start: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn template(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            match self.rest().find('{') {
                Some(0) => {}
                Some(length) => self.at += length,
                None => self.at = self.input.len(),
            }
            let text = self.take();
            nodes.extend((!text.is_empty()).then(|| Node::Text(text.to_owned())));
            if self.rest().is_empty() {
                return Ok(nodes);
            }
            self.at += 1;
            self.take();
            nodes.push(Node::List(self.action()?));
        }
    }

    fn rest(&self) -> &'t str {
        &self.input[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take(&mut self) -> &'t str {
        let text = &self.input[self.start..self.at];
        self.start = self.at;
        text
    }

    /// Parses an expression up to its closing brace.
    fn action(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            if self.rest().starts_with('}') {
                self.at += 1;
                self.take();
                return Ok(nodes);
            }
            if self.rest().starts_with("[?(") {
                self.filter(&mut nodes)?;
                continue;
            }
            if self.rest().starts_with("..") {
                self.recursive(&mut nodes)?;
                continue;
            }
            match self.next() {
                None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => drop(self.take()),
                Some('[') => self.array(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => self.quoted(quote, &mut nodes)?,
                Some('.') => self.field(&mut nodes),
                Some(c) if matches!(c, '+' | '-') || is_digit(c) => {
                    self.at -= c.len_utf8();
                    self.number(&mut nodes)?;
                }
                Some(c) if is_alphanumeric(c) => {
                    self.at -= c.len_utf8();
                    self.identifier(&mut nodes);
                }
                Some(c) => {
                    let code = c as u32;
                    return Err(format!("unrecognized character in action: U+{code:04X} '{c}'"));
                }
            }
        }
    }

    /// Parses an expression that is part of another.
    fn nested(&self, text: &str) -> Result<Vec<Node>, String> {
        if self.depth >= MAX_DEPTH {
            return Err("too many nested expressions".to_owned());
        }
        let whole = format!("{{{text}}}");
        let mut parser = Parser { input: &whole, at: 0, start: 0, depth: self.depth + 1 };
        match parser.template()?.into_iter().next() {
            Some(Node::List(nodes)) => Ok(nodes),
            _ => Ok(Vec::new()),
        }
    }

    fn recursive(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        if nodes.last() == Some(&Node::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.at += 2;
        self.take();
        nodes.push(Node::Recursive);
        if self.peek().is_some_and(is_alphanumeric) {
            self.field(nodes);
        }
        Ok(())
    }

    fn field(&mut self, nodes: &mut Vec<Node>) {
        self.take();
        loop {
            match self.next() {
                Some('\\') => drop(self.next()),
                Some(c) if is_terminator(c) => {
                    self.at -= c.len_utf8();
                    break;
                }
                Some(_) => {}
                None => break,
            }
        }
        match self.take() {
            "*" => nodes.push(Node::Wildcard),
            name => nodes.push(Node::Field(name.replace('\\', ""))),
        }
    }

    fn identifier(&mut self, nodes: &mut Vec<Node>) {
        let rest = self.rest();
        self.at += rest.find(is_terminator).unwrap_or(rest.len());
        nodes.push(match self.take() {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            name => Node::Identifier(name.to_owned()),
        });
    }

    fn number(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        self.at += usize::from(matches!(self.peek(), Some('+' | '-')));
        let rest = self.rest();
        self.at += rest.find(|c: char| c != '.' && !is_digit(c)).unwrap_or(rest.len());
        let text = self.take();
        if let Ok(number) = text.parse() {
            nodes.push(Node::Int(number));
        } else if let Ok(number) = text.parse() {
            nodes.push(Node::Float(number));
        } else {
            return Err(format!("cannot parse number {text}"));
        }
        Ok(())
    }

    fn quoted(&mut self, quote: char, nodes: &mut Vec<Node>) -> Result<(), String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote && self.input.as_bytes()[self.at - 2] != b'\\' => break,
                Some(_) => {}
            }
        }
        let text = self.take();
        let unquoted = unquote(&text[1..text.len() - 1], quote);
        nodes.push(Node::Text(unquoted.ok_or(format!("unquote string {text} error invalid syntax"))?));
        Ok(())
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text = self.take();
        let text = match &text[1..text.len() - 1] {
            "*" => ":",
            text => text,
        };
        if text.contains(',') {
            let part = |part: &str| self.nested(&format!("[{}]", part.trim_matches(' ')));
            nodes.push(Node::Union(text.split(',').map(part).collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            nodes.extend(self.nested(&format!(".{key}"))?);
            return Ok(());
        }
        nodes.push(slice(text)?);
        Ok(())
    }

    fn filter(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        self.at += 3;
        self.take();
        self.skip_condition()?;
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let text = self.take();
        let text = &text[..text.len() - 2];
        let filter = match split_comparison(text) {
            None => Filter { left: self.nested(text)?, right: Vec::new(), operator: "exists".to_owned() },
            Some((left, operator, right)) => {
                Filter { left: self.nested(left)?, right: self.nested(right)?, operator: operator.to_owned() }
            }
        };
        nodes.push(Node::Filter(Box::new(filter)));
        Ok(())
    }

    /// Skips the condition of a filter and its closing parenthesis. Parentheses between quotes do not count.
    fn skip_condition(&mut self) -> Result<(), String> {
        let (mut quote, mut is_closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(c @ ('"' | '\'')) => match quote {
                    None => quote = Some(c),
                    Some(open) => {
                        is_closed |= open == c && self.input.as_bytes()[self.at - 2] != b'\\';
                    }
                },
                Some(')') if quote.is_some() == is_closed => return Ok(()),
                Some(_) => {}
            }
        }
    }
}

/// The parts of `left operator right`: the operator is the first run of `!<>=`.
fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    if text.contains('\n') {
        return None;
    }
    let is_operator = |c: char| "!<>=".contains(c);
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let length = text[start..].find(|c: char| !is_operator(c)).unwrap_or(text.len() - start);
    // A right side of nothing but operators takes the last of them.
    let end = if start + length < text.len() { start + length } else { text.len() - 1 };
    (end > start).then(|| (&text[..start], &text[start..end], &text[end..]))
}

/// `1`, `1:2`, `1:2:3`, `::2`.
fn slice(text: &str) -> Result<Node, String> {
    let invalid = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(invalid());
    }
    let mut bounds = [Bound::default(); 3];
    for (bound, part) in bounds.iter_mut().zip(&parts) {
        if !part.is_empty() {
            let value = part.parse().map_err(|_| format!("array index {part} is not a number"))?;
            *bound = Bound { value, is_known: true, is_derived: false };
        }
    }
    if parts.len() == 1 {
        let end = bounds[0].value.saturating_add(1);
        bounds[1] = Bound { value: end, is_known: true, is_derived: true };
    }
    Ok(Node::Slice(bounds))
}

/// Text between quotes, with Go's escapes; none if one is wrong.
fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let digits = |count: usize, chars: &mut std::str::Chars<'_>| {
            let text: String = chars.by_ref().take(count).collect();
            let code = (text.len() == count).then(|| u32::from_str_radix(&text, 16).ok())??;
            char::from_u32(code)
        };
        out.push(match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => digits(2, &mut chars)?,
            'u' => digits(4, &mut chars)?,
            'U' => digits(8, &mut chars)?,
            '\\' => '\\',
            c if c == quote => c,
            _ => return None,
        });
    }
    Some(out)
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_digit(c: char) -> bool {
    c.is_numeric()
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
