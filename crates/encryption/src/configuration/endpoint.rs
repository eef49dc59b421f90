//! The endpoint of a KMS plugin, as Go's `url.Parse` reads it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The parts of a URL that matter here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// In lower case.
    pub(super) scheme: String,
    path: Vec<u8>,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Endpoint, String> {
        let failed = |why: &str| format!("parse {text:?}: {why}");
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(failed("net/url: invalid control character in URL"));
        }
        let text_before_fragment = text.split_once('#').map_or(text, |(before, _)| before);
        let (scheme, rest) =
            split_scheme(text_before_fragment).ok_or_else(|| failed("missing protocol scheme"))?;
        let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
        let scheme = scheme.to_ascii_lowercase();
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Ok(Endpoint { scheme, path: Vec::new() });
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err(failed("first path segment in URL cannot contain colon"));
            }
        }
        let path = match rest.strip_prefix("//") {
            Some(authority) => authority.find('/').map_or("", |at| &authority[at..]),
            None => rest,
        };
        let path = unescape(path).map_err(|escape| failed(&format!("invalid URL escape {escape:?}")))?;
        Ok(Endpoint { scheme, path })
    }

    /// The socket. `/@name` is an abstract one.
    pub(super) fn socket(&self) -> PathBuf {
        let path = match self.path.strip_prefix(b"/@") {
            Some(name) => [b"\0", name].concat(),
            None => self.path.clone(),
        };
        PathBuf::from(OsStr::from_bytes(&path))
    }
}

/// Scheme and rest; `None` if the scheme is empty but its colon is there.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

/// The bytes of a path, or the escape that is none.
fn unescape(text: &str) -> Result<Vec<u8>, &str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(number) = number else {
            let escape = &text[text.len() - rest.len()..];
            return Err(escape.char_indices().nth(3).map_or(escape, |(end, _)| &escape[..end]));
        };
        bytes.push(number);
        rest = &after[2..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_of_urls() {
        for (text, socket) in [
            ("unix:///run/kms.sock", "/run/kms.sock"),
            ("UNIX:///run/kms.sock?a#b", "/run/kms.sock"),
            ("unix:/run/kms.sock", "/run/kms.sock"),
            ("unix://host/kms.sock", "/kms.sock"),
            ("unix:///a%20b", "/a b"),
            ("unix:///@name", "\0name"),
            ("unix:name", ""),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!((endpoint.scheme.as_str(), endpoint.socket()), ("unix", socket.into()), "{text}");
        }
        for (text, scheme) in [("/kms.sock", ""), ("tcp://host:1", "tcp"), ("kms", "")] {
            assert_eq!(Endpoint::parse(text).unwrap().scheme, scheme, "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        for (text, why) in [
            (":x", "missing protocol scheme"),
            ("unix:///%zz", "invalid URL escape \"%zz\""),
            ("unix:///%a", "invalid URL escape \"%a\""),
            ("unix:///a\nb", "net/url: invalid control character in URL"),
            ("1x:y/z", "first path segment in URL cannot contain colon"),
        ] {
            assert_eq!(Endpoint::parse(text), Err(format!("parse {text:?}: {why}")), "{text}");
        }
    }
}
