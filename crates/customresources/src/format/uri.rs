//! URIs as Go's `url.ParseRequestURI` accepts them: an absolute path, or an absolute URI.

/// Returns true for a URI that an HTTP request could have.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        // Opaque.
        return !scheme.is_empty();
    }
    let Some(authority_on) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else {
        return has_valid_escapes(rest);
    };
    let end = authority_on.find('/').unwrap_or(authority_on.len());
    let (authority, path) = authority_on.split_at(end);
    is_authority(authority) && has_valid_escapes(path)
}

/// The scheme, which may be empty, and the rest; none if the text begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i > 0 => return Some((&text[..i], &text[i + 1..])),
            ':' => return None,
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn has_valid_escapes(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|after| {
        let digits = after.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

fn is_authority(authority: &str) -> bool {
    let Some((user, host)) = authority.rsplit_once('@') else { return is_host(authority) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    user.chars().all(allowed) && has_valid_escapes(user) && is_host(host)
}

fn is_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[') {
        let Some((address, after)) = bracketed.rsplit_once(']') else { return false };
        let (address, zone) = address.split_once("%25").unwrap_or((address, "z"));
        return is_port(after)
            && !zone.is_empty()
            && is_zone(zone)
            && address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    if host.contains('[') {
        return false;
    }
    let (name, port) = match host.find(':') {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    is_port(port) && is_host_name(name)
}

/// Nothing, or a colon and digits.
fn is_port(port: &str) -> bool {
    port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A zone of an IPv6 address, in which any byte may be escaped.
fn is_zone(zone: &str) -> bool {
    has_valid_escapes(zone) && zone.chars().all(|c| c == '%' || is_plain(c) && c != '[')
}

fn is_plain(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"".contains(c)
}

/// In a host name only bytes beyond ASCII may be escaped.
fn is_host_name(name: &str) -> bool {
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if c == '%' {
            let Some(digits) = rest.get(1..3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())) else {
                return false;
            };
            let beyond_ascii = digits.as_bytes()[0] >= b'8';
            if !beyond_ascii && !digits.eq_ignore_ascii_case("25") {
                return false;
            }
            rest = &rest[3..];
            continue;
        }
        if !is_plain(c) {
            return false;
        }
        rest = &rest[c.len_utf8()..];
    }
    true
}
