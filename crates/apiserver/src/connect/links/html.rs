//! A streaming HTML scanner, which finds the values of attributes that are links. Pure.
//!
//! It never fails and never buffers more than one tag: text that is not HTML, or a tag that does not end, passes unchanged.

use std::mem;
use std::ops::Range;

use super::location::Place;

/// The length limit of a tag; longer text passes as text.
const LONGEST: usize = 64 * 1024;

/// The attributes that are links, by element.
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["formaction", "src", "usemap"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements that contain no tags, and the text that ends them.
const OPAQUE: [(&str, &str); 8] = [
    ("iframe", "</iframe"),
    ("noembed", "</noembed"),
    ("noframes", "</noframes"),
    ("script", "</script"),
    ("style", "</style"),
    ("textarea", "</textarea"),
    ("title", "</title"),
    ("xmp", "</xmp"),
];

const COMMENT: &[u8] = b"<!--";

pub(super) struct Page {
    place: Place,
    /// The beginning of a tag whose end has not arrived yet.
    held: Vec<u8>,
    /// The position up to which the buffered text is parsed: each byte is parsed once, however small the pieces are.
    reader: Reader,
    /// The end of the element that contains no tags.
    until: Option<&'static str>,
}

/// A complete tag.
#[derive(Default)]
struct Tag {
    length: usize,
    name: Range<usize>,
    /// Names and values of its attributes.
    attributes: Vec<(Range<usize>, Range<usize>)>,
}

impl Page {
    pub(super) fn new(place: Place) -> Page {
        Page { place, held: Vec::new(), reader: Reader::default(), until: None }
    }

    /// Processes the next piece of the page, and returns the part that is complete.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            match self.step(&text[at..], &mut out) {
                0 => break,
                taken => {
                    at += taken;
                    self.reader = Reader::default();
                }
            }
        }
        if text.len() - at > LONGEST {
            out.extend_from_slice(&text[at..]);
            at = text.len();
            self.reader = Reader::default();
        }
        self.held = text.split_off(at);
        out
    }

    /// The buffered rest at the end of the page.
    pub(super) fn end(&mut self) -> Vec<u8> {
        mem::take(&mut self.held)
    }

    /// Processes the next token, and returns its length; 0 if more input is needed.
    fn step(&mut self, text: &[u8], out: &mut Vec<u8>) -> usize {
        if let Some(until) = self.until {
            let (taken, ended) = opaque(text, until);
            self.until = self.until.filter(|_| !ended);
            out.extend_from_slice(&text[..taken]);
            return if taken == 0 && ended { self.step(text, out) } else { taken };
        }
        let taken = match text {
            [b'<', next, ..] if next.is_ascii_alphabetic() => return self.tag(text, out),
            _ if text.starts_with(COMMENT) => {
                self.until = Some("-->");
                COMMENT.len()
            }
            _ if COMMENT.starts_with(text) => 0,
            [b'<', b'!' | b'?' | b'/', ..] => {
                let end = text[self.reader.at..].iter().position(|byte| *byte == b'>');
                let end = end.map_or(0, |end| self.reader.at + end + 1);
                self.reader.at = text.len();
                end
            }
            [b'<', rest @ ..] => 1 + before(rest),
            text => before(text),
        };
        out.extend_from_slice(&text[..taken]);
        taken
    }

    /// Processes a tag, and rewrites its links.
    fn tag(&mut self, text: &[u8], out: &mut Vec<u8>) -> usize {
        if !self.reader.read(text) {
            return 0;
        }
        let tag = &self.reader.tag;
        let name = text[tag.name.clone()].to_ascii_lowercase();
        let links = LINKS.iter().find(|(element, _)| element.as_bytes() == name);
        let is_link = |attribute: &[u8]| {
            links.is_some_and(|(_, links)| {
                links.iter().any(|link| attribute.eq_ignore_ascii_case(link.as_bytes()))
            })
        };
        let mut at = 0;
        for (attribute, value) in &tag.attributes {
            if let Ok(link) = str::from_utf8(&text[value.clone()])
                && is_link(&text[attribute.clone()])
            {
                out.extend_from_slice(&text[at..value.start]);
                let trimmed = link.trim();
                out.extend_from_slice(link.replacen(trimmed, &self.place.link(trimmed), 1).as_bytes());
                at = value.end;
            }
        }
        out.extend_from_slice(&text[at..tag.length]);
        self.until = OPAQUE.iter().find(|(element, _)| element.as_bytes() == name).map(|(_, until)| *until);
        tag.length
    }
}

/// An incremental parser of one tag.
#[derive(Default)]
struct Reader {
    tag: Tag,
    state: State,
    /// The next byte to read.
    at: usize,
}

/// The part of a tag that a byte belongs to, with the bounds of the attribute's name and the start of its value.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Name,
    Between,
    Attribute(usize),
    AfterAttribute(usize, usize),
    BeforeValue(usize, usize),
    Value {
        attribute: (usize, usize),
        start: usize,
        quote: Option<u8>,
    },
}

impl Reader {
    /// Parses the received part of the tag at the beginning of a text. Returns true if the tag is complete.
    fn read(&mut self, text: &[u8]) -> bool {
        // The bracket that begins it.
        self.at = self.at.max(1);
        while let Some(byte) = text.get(self.at) {
            let (state, taken) = self.step(*byte);
            if matches!(self.state, State::Between) && *byte == b'>' {
                self.tag.length = self.at + 1;
                return true;
            }
            self.state = state;
            self.at += usize::from(taken);
        }
        false
    }

    /// The state after a byte, and whether the byte belongs to the state before it.
    fn step(&mut self, byte: u8) -> (State, bool) {
        let at = self.at;
        let ends_name = is_space(byte) || matches!(byte, b'/' | b'>');
        match self.state {
            State::Name if ends_name => {
                self.tag.name = 1..at;
                (State::Between, false)
            }
            State::Between if is_space(byte) || byte == b'/' => (State::Between, true),
            // A name may begin with a character that otherwise ends it.
            State::Between => (State::Attribute(at), true),
            State::Attribute(start) if ends_name || byte == b'=' => (State::AfterAttribute(start, at), false),
            State::AfterAttribute(start, end) if byte == b'=' => (State::BeforeValue(start, end), true),
            State::AfterAttribute(..) if !is_space(byte) => (State::Between, false),
            State::BeforeValue(start, end) if matches!(byte, b'"' | b'\'') => {
                (State::Value { attribute: (start, end), start: at + 1, quote: Some(byte) }, true)
            }
            State::BeforeValue(start, end) if !is_space(byte) => {
                (State::Value { attribute: (start, end), start: at, quote: None }, false)
            }
            State::Value { attribute, start, quote } => {
                let ended = quote.map_or(is_space(byte) || byte == b'>', |quote| byte == quote);
                if ended {
                    self.tag.attributes.push((attribute.0..attribute.1, start..at));
                    (State::Between, quote.is_some())
                } else {
                    (self.state, true)
                }
            }
            state => (state, true),
        }
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

/// The length of the text before the next tag.
fn before(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'<').unwrap_or(text.len())
}

fn end_of(text: &[u8], pattern: &[u8]) -> Option<usize> {
    let found = text.windows(pattern.len()).position(|window| window.eq_ignore_ascii_case(pattern));
    found.map(|at| at + pattern.len())
}

/// The length of text without tags that can pass, and true if the element ends there.
fn opaque(text: &[u8], until: &str) -> (usize, bool) {
    match end_of(text, until.as_bytes()) {
        // The end of a comment is part of it; the end of an element is a tag.
        Some(end) if until == "-->" => (end, true),
        Some(end) => (end - until.len(), true),
        None => (text.len().saturating_sub(until.len() - 1), false),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn changed(html: &str, size: usize) -> String {
        let place = Place { prefix: "/proxy".into(), host: "10.0.0.1:80".into(), asked: "server".into() };
        let mut page = Page::new(place);
        let mut out: Vec<u8> = html.as_bytes().chunks(size).flat_map(|piece| page.feed(piece)).collect();
        out.extend(page.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_are_found_in_pieces_of_any_size() {
        for (html, expected) in [
            (r#"<a href="/x">/x</a>"#, r#"<a href="/proxy/x">/x</a>"#),
            ("<A class=b HREF = '/x'>", "<A class=b HREF = '/proxy/x'>"),
            ("<img alt src=/x>", "<img alt src=/proxy/x>"),
            ("<img src=\"/x\"/>", "<img src=\"/proxy/x\"/>"),
            (r#"<video poster="/p" src="/s">"#, r#"<video poster="/proxy/p" src="/proxy/s">"#),
            (r#"<form action=" /x ">"#, r#"<form action=" /proxy/x ">"#),
            (r#"<a href="/x?a=1&amp;b=2">"#, r#"<a href="/proxy/x?a=1&amp;b=2">"#),
            (r#"<a title=">" href="/x">"#, r#"<a title=">" href="/proxy/x">"#),
            (r#"<p href="/x" title="a < b">"#, r#"<p href="/x" title="a < b">"#),
            (
                r#"<a data-href="/x" href="y" href="http://else/x">"#,
                r#"<a data-href="/x" href="y" href="http://else/x">"#,
            ),
            // Text without tags.
            (r#"<!-- <a href="/x"> --><a href="/x">"#, r#"<!-- <a href="/x"> --><a href="/proxy/x">"#),
            (
                r#"<script src="/s">'<a href="/x">'</SCRIPT><a href="/x">"#,
                r#"<script src="/proxy/s">'<a href="/x">'</SCRIPT><a href="/proxy/x">"#,
            ),
            ("<!doctype html>1 < 2 <3 & <a href=/x>", "<!doctype html>1 < 2 <3 & <a href=/proxy/x>"),
            // A tag that does not end.
            (r#"text <a href="/x"#, r#"text <a href="/x"#),
            ("<!-", "<!-"),
            ("<script>a", "<script>a"),
            ("", ""),
        ] {
            for size in [1, 2, 5, 1000] {
                assert_eq!(changed(html, size), expected, "{html} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_tag_in_many_pieces_is_read_once() {
        let tag = format!("<a href=\"{}", ">".repeat(LONGEST - 20));
        let declaration = format!("<!{}", "b".repeat(LONGEST - 20));
        for long in [tag, declaration] {
            // Read again with every byte, each would take many seconds.
            let started = Instant::now();
            assert_eq!(changed(&long, 1), long);
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        }
    }

    #[test]
    fn a_tag_that_never_ends_is_not_buffered() {
        let long = format!("<a {}", "b".repeat(2 * LONGEST));
        let place = Place { prefix: "/proxy".into(), host: "h".into(), asked: "s".into() };
        assert_eq!(Page::new(place).feed(long.as_bytes()), long.as_bytes());
        assert_eq!(changed(&"<".repeat(1000), 7), "<".repeat(1000));
    }
}
