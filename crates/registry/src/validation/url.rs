//! URLs in parts, parsed as by Go: leniently, and with its errors.

use corten_api::status::quoted;

/// The parts of a URL, undecoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'t> {
    /// As written; schemes are compared without regard to case.
    pub(crate) scheme: &'t str,
    pub(crate) user: Option<&'t str>,
    pub(crate) host: &'t str,
    pub(crate) query: &'t str,
    pub(crate) fragment: &'t str,
}

/// Parses a URL, or returns Go's error.
pub(crate) fn parse(text: &str) -> Result<Url<'_>, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let refuse = |why: String| Err(format!("parse {}: {why}", quoted(rest)));
    if rest.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return refuse("net/url: invalid control character in URL".to_owned());
    }
    if rest == "*" {
        return Ok(Url { fragment, ..Url::default() });
    }
    let (scheme, rest_of) = match scheme(rest) {
        Ok(parts) => parts,
        Err(why) => return refuse(why.to_owned()),
    };
    let (path, query) = rest_of.split_once('?').unwrap_or((rest_of, ""));
    let mut url = Url { scheme, fragment, query, ..Url::default() };
    if !path.starts_with('/') {
        let first = path.split('/').next().unwrap_or_default();
        if scheme.is_empty() && first.contains(':') {
            return refuse("first path segment in URL cannot contain colon".to_owned());
        }
        return Ok(url);
    }
    let has_authority = !scheme.is_empty() || !path.starts_with("///");
    if let Some(authority) = path.strip_prefix("//").filter(|_| has_authority) {
        let authority = authority.split('/').next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(why) = host_complaint(host) {
            return refuse(why);
        }
        (url.user, url.host) = (user, host);
    }
    Ok(url)
}

/// The scheme, which may be missing, and the text after it.
fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host_complaint(host: &str) -> Option<String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => match rest.rsplit_once(']') {
            Some((_, port)) => port,
            None => return Some("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    if !is_port {
        return Some(format!("invalid port {} after host", quoted(port)));
    }
    let odd = host.chars().find(|c| matches!(c, ' ' | '\\' | '^' | '`' | '{' | '|' | '}'));
    odd.map(|c| format!("invalid character {} in host name", quoted(c.encode_utf8(&mut [0; 4]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_complaints() {
        let url = parse("HTTPS://me:pw@example.com:443/a?b#c").expect("can be read");
        let expected =
            Url { scheme: "HTTPS", user: Some("me:pw"), host: "example.com:443", query: "b", fragment: "c" };
        assert_eq!(url, expected);
        assert_eq!(parse("").expect("can be read"), Url::default());
        assert_eq!(parse("a/b").expect("can be read").host, "");
        let table = [
            (":x", "parse \":x\": missing protocol scheme"),
            ("1:x", "parse \"1:x\": first path segment in URL cannot contain colon"),
            ("https://h:p/", "parse \"https://h:p/\": invalid port \":p\" after host"),
            ("https://a b/", "parse \"https://a b/\": invalid character \" \" in host name"),
            ("https://[::1/", "parse \"https://[::1/\": missing ']' in host"),
            ("a\u{1}", "parse \"a\\x01\": net/url: invalid control character in URL"),
        ];
        for (text, why) in table {
            assert_eq!(parse(text).expect_err("cannot be read"), why);
        }
    }
}
