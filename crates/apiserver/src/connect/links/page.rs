//! A page of HTML as it comes by: finds the values of attributes that are links. Pure.
//!
//! It never fails and never holds more than one tag: what is no HTML, or a tag that does not end, passes as it is.

use std::mem;
use std::ops::Range;

use super::place::Place;

/// A tag that is longer is none.
const LONGEST: usize = 64 * 1024;

/// Which attributes of which elements are links.
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

/// Elements within which there are no tags, and what ends them.
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
    /// The beginning of a tag whose end has not come yet.
    held: Vec<u8>,
    /// What ends the text in which no tags are looked for.
    until: Option<&'static str>,
}

/// A tag that is complete.
#[derive(Default)]
struct Tag {
    length: usize,
    name: Range<usize>,
    /// Names and values of its attributes.
    attributes: Vec<(Range<usize>, Range<usize>)>,
}

impl Page {
    pub(super) fn new(place: Place) -> Page {
        Page { place, held: Vec::new(), until: None }
    }

    /// The next piece of the page, as far as it can be told what it is.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            match self.step(&text[at..], &mut out) {
                0 => break,
                taken => at += taken,
            }
        }
        if text.len() - at > LONGEST {
            out.extend_from_slice(&text[at..]);
            at = text.len();
        }
        self.held = text.split_off(at);
        out
    }

    /// What is left when nothing more comes.
    pub(super) fn end(&mut self) -> Vec<u8> {
        mem::take(&mut self.held)
    }

    /// Passes on what comes next, and says how much that was; nothing if more has to come first.
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
            [b'<', b'!' | b'?' | b'/', ..] => end_of(text, b">").unwrap_or(0),
            [b'<', rest @ ..] => 1 + before(rest),
            text => before(text),
        };
        out.extend_from_slice(&text[..taken]);
        taken
    }

    /// Passes on a tag, with its links led through the proxy.
    fn tag(&mut self, text: &[u8], out: &mut Vec<u8>) -> usize {
        let Some(tag) = Tag::parse(text) else { return 0 };
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

impl Tag {
    /// The tag that a text begins with, if it ends there too.
    fn parse(text: &[u8]) -> Option<Tag> {
        let name = 1..1 + length(&text[1..], |byte| !is_space(byte) && byte != b'/' && byte != b'>')?;
        let mut tag = Tag { name: name.clone(), ..Tag::default() };
        let mut at = name.end;
        loop {
            at += length(&text[at..], |byte| is_space(byte) || byte == b'/')?;
            if text[at] == b'>' {
                tag.length = at + 1;
                return Some(tag);
            }
            // A name may begin with what would otherwise end it.
            let rest = length(&text[at + 1..], |byte| !is_space(byte) && !b"/>=".contains(&byte))?;
            let attribute = at..at + 1 + rest;
            at = attribute.end;
            let gap = length(&text[at..], is_space)?;
            if text[at + gap] != b'=' {
                continue;
            }
            at += gap + 1;
            at += length(&text[at..], is_space)?;
            let value = match text[at] {
                quote @ (b'"' | b'\'') => at + 1..at + 1 + length(&text[at + 1..], |byte| byte != quote)?,
                _ => at..at + length(&text[at..], |byte| !is_space(byte) && byte != b'>')?,
            };
            at = value.end + usize::from(matches!(text[at], b'"' | b'\''));
            tag.attributes.push((attribute, value));
        }
    }
}

/// How many bytes at the beginning are of a kind; nothing if all are, because more may come.
fn length(text: &[u8], is_it: impl Fn(u8) -> bool) -> Option<usize> {
    text.iter().position(|byte| !is_it(*byte))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

/// How much comes before the next tag.
fn before(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'<').unwrap_or(text.len())
}

fn end_of(text: &[u8], pattern: &[u8]) -> Option<usize> {
    let found = text.windows(pattern.len()).position(|window| window.eq_ignore_ascii_case(pattern));
    found.map(|at| at + pattern.len())
}

/// How much of a text without tags can pass, and whether it has ended there.
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
    use super::*;

    fn changed(html: &str, size: usize) -> String {
        let place = Place { prefix: "/proxy".into(), host: "10.0.0.1:80".into(), asked: "server".into() };
        let mut page = Page::new(place);
        let mut out: Vec<u8> = html.as_bytes().chunks(size).flat_map(|piece| page.feed(piece)).collect();
        out.extend(page.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_are_found_however_the_page_comes() {
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
            // Where there are no tags.
            (r#"<!-- <a href="/x"> --><a href="/x">"#, r#"<!-- <a href="/x"> --><a href="/proxy/x">"#),
            (
                r#"<script src="/s">'<a href="/x">'</SCRIPT><a href="/x">"#,
                r#"<script src="/proxy/s">'<a href="/x">'</SCRIPT><a href="/proxy/x">"#,
            ),
            ("<!doctype html>1 < 2 <3 & <a href=/x>", "<!doctype html>1 < 2 <3 & <a href=/proxy/x>"),
            // What does not end.
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
    fn what_never_ends_is_not_held() {
        let long = format!("<a {}", "b".repeat(2 * LONGEST));
        let place = Place { prefix: "/proxy".into(), host: "h".into(), asked: "s".into() };
        assert_eq!(Page::new(place).feed(long.as_bytes()), long.as_bytes());
        assert_eq!(changed(&"<".repeat(1000), 7), "<".repeat(1000));
    }
}
