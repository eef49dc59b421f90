//! URLs as Go's `net/url` parses and prints them, with its errors.
//!
//! Bytes of escapes that are not UTF-8 are replaced (`U+FFFD`) in decoded parts: texts of this crate are UTF-8.

use std::borrow::Cow;
use std::collections::BTreeMap;

use corten_api::status::quoted;

use super::parts::{self, Set, escape, is_escaped, unescape};

/// A parsed URL. Equality is that of its text.
#[derive(Debug, Clone, Default)]
pub struct Url {
    pub scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: Vec<u8>,
    path: Vec<u8>,
    /// The path as it was written, if escaping `path` gives another text.
    raw_path: Option<String>,
    query: String,
    /// The text ends with `?`.
    empty_query: bool,
    fragment: Vec<u8>,
    raw_fragment: Option<String>,
    /// `scheme:/path`
    omits_host: bool,
}

/// The number of parameters that `query` returns at most; of more it returns none.
const MAX_PARAMETERS: usize = 10_000;

/// Checks a URL as the OpenAPI format `uri` does: it is absolute, or a path.
pub fn check_request_uri(text: &str) -> Result<(), String> {
    parse(text, true).map(drop).map_err(|message| error(text, &message))
}

fn error(text: &str, message: &str) -> String {
    format!("parse {}: {message}", quoted(text))
}

impl Url {
    /// Parses an absolute URL or a path, with an optional fragment.
    pub fn parse(text: &str) -> Result<Url, String> {
        check_request_uri(text)?;
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse(before, false).map_err(|message| error(before, &message))?;
        if !fragment.is_empty() {
            let decoded = unescape(fragment, Set::Fragment).map_err(|message| error(text, &message))?;
            url.raw_fragment = (escape(&decoded, Set::Fragment) != fragment).then(|| fragment.to_owned());
            url.fragment = decoded;
        }
        Ok(url)
    }

    /// Host and port.
    pub fn host(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.host)
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> String {
        let host = self.host();
        let (host, _) = split_port(&host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned()
    }

    pub fn port(&self) -> String {
        split_port(&self.host()).1.to_owned()
    }

    pub fn escaped_path(&self) -> String {
        match &self.raw_path {
            Some(raw) if is_escaped(raw, Set::Path) => raw.clone(),
            _ if self.path == b"*" => "*".to_owned(),
            _ => escape(&self.path, Set::Path),
        }
    }

    /// The parameters of the query; invalid ones are left out.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if self.query.bytes().filter(|byte| *byte == b'&').count() >= MAX_PARAMETERS {
            return parameters;
        }
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescape(key, Set::Query), unescape(value, Set::Query)) {
                parameters.entry(text_of(&key)).or_default().push(text_of(&value));
            }
        }
        parameters
    }

    fn escaped_fragment(&self) -> String {
        match &self.raw_fragment {
            Some(raw) if is_escaped(raw, Set::Fragment) => raw.clone(),
            _ => escape(&self.fragment, Set::Fragment),
        }
    }

    fn set_path(&mut self, raw: &str) -> Result<(), String> {
        self.path = unescape(raw, Set::Path)?;
        self.raw_path = (escape(&self.path, Set::Path) != raw).then(|| raw.to_owned());
        Ok(())
    }

    /// Scheme, user and host as they are printed before the path.
    fn push_authority(&self, out: &mut String) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if !has_authority && (self.scheme.is_empty() || self.omits_host || self.path.is_empty()) {
            return;
        }
        out.push_str("//");
        if let Some((name, password)) = &self.user {
            out.push_str(&escape(name, Set::User));
            if let Some(password) = password {
                out.push(':');
                out.push_str(&escape(password, Set::User));
            }
            out.push('@');
        }
        out.push_str(&escape(&self.host, Set::Host));
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            self.push_authority(&mut out);
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if self.empty_query || !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&self.escaped_fragment());
        }
        f.write_str(&out)
    }
}

impl PartialEq for Url {
    fn eq(&self, other: &Url) -> bool {
        self.to_string() == other.to_string()
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a URL without a fragment; `absolute` refuses relative paths.
fn parse(text: &str, absolute: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && absolute {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url { path: b"*".to_vec(), ..Url::default() });
    }
    let (scheme, mut rest) = parts::scheme(text)?;
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
    match rest.split_once('?') {
        Some((before, "")) => {
            url.empty_query = true;
            rest = before;
        }
        Some((before, query)) => {
            query.clone_into(&mut url.query);
            rest = before;
        }
        None => {}
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if absolute {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_authority = !url.scheme.is_empty() || (!absolute && !rest.starts_with("///"));
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_authority) {
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        (url.user, url.host) = parts::authority(&url.scheme, authority)?;
        rest = path;
    } else if !url.scheme.is_empty() && rest.starts_with('/') {
        url.omits_host = true;
    }
    url.set_path(rest)?;
    Ok(url)
}

/// Host and port; the port is empty if it is none.
fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(colon) if parts::is_optional_port(&host[colon..]) => (&host[..colon], &host[colon + 1..]),
        _ => (host, ""),
    }
}
