//! Escapes, scheme, user and host of URLs.

use corten_api::status::quoted;

use super::super::netip;

/// Parts of a URL, which differ in the characters that need no escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// The user's name and password.
type User = Option<(Vec<u8>, Option<Vec<u8>>)>;

impl Set {
    fn allows(self, byte: u8) -> bool {
        let marks: &[u8] = match self {
            Set::Path => b"$&+,/:;=@",
            Set::Host | Set::Zone => b"!\"$&'()*+,:;<=>[]",
            Set::User => b"$&+,;=",
            Set::Query => b"",
            Set::Fragment => b"!$&()*+,/:;=?@",
        };
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || marks.contains(&byte)
    }
}

/// Decodes escapes.
pub(super) fn unescape(text: &str, set: Set) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let end = (i + 3).min(bytes.len());
                let sequence = &bytes[i..end];
                let invalid = || format!("invalid URL escape {}", quoted_bytes(sequence));
                let value = decode(sequence).ok_or_else(invalid)?;
                let refused = match set {
                    Set::Host => value < 0x80 && value != b'%',
                    Set::Zone => value != b'%' && value != b' ' && !Set::Host.allows(value),
                    _ => false,
                };
                if refused {
                    return Err(invalid());
                }
                out.push(value);
                i = end;
                continue;
            }
            b'+' if set == Set::Query => out.push(b' '),
            byte if matches!(set, Set::Host | Set::Zone) && byte < 0x80 && !set.allows(byte) => {
                return Err(format!(
                    "invalid character {} in host name",
                    quoted(&char::from(byte).to_string())
                ));
            }
            byte => out.push(byte),
        }
        i += 1;
    }
    Ok(out)
}

/// Bytes as Go quotes them, also those of half a character.
fn quoted_bytes(bytes: &[u8]) -> String {
    let mut out = "\"".to_owned();
    for chunk in bytes.utf8_chunks() {
        let text = quoted(chunk.valid());
        out.push_str(&text[1..text.len() - 1]);
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out + "\""
}

/// `%41`
fn decode(sequence: &[u8]) -> Option<u8> {
    let [_, high, low] = sequence else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// Encodes what the part of a URL does not allow.
pub(super) fn escape(bytes: &[u8], set: Set) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if set.allows(*byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns true if a text is a valid encoding, though perhaps not the usual one.
pub(super) fn is_escaped(text: &str, set: Set) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || set.allows(byte))
}

/// The scheme, empty if there is none, and the rest.
pub(super) fn scheme(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end.map(|end| (end, &text[end..])) {
        Some((0, rest)) if rest.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some((end, rest)) if rest.starts_with(':') && text.as_bytes()[0].is_ascii_alphabetic() => {
            Ok((&text[..end], &rest[1..]))
        }
        _ => Ok(("", text)),
    }
}

/// `user:password@host:port`
pub(super) fn authority(scheme: &str, text: &str) -> Result<(User, Vec<u8>), String> {
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    let host = parse_host(scheme, host)?;
    let Some(user) = user else { return Ok((None, host)) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(fits) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) =
        user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let name = unescape(name, Set::User)?;
    let password = password.map(|password| unescape(password, Set::User)).transpose()?;
    Ok((Some((name, password)), host))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    let invalid_port = |port: &str| format!("invalid port {} after host", quoted(port));
    match host.rfind('[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    let is_http = matches!(scheme, "http" | "https");
    let colon = if is_http { host.find(':') } else { host.rfind(':') };
    if let Some(port) = colon.map(|colon| &host[colon..]).filter(|port| !is_optional_port(port)) {
        return Err(invalid_port(port));
    }
    unescape(host, Set::Host)
}

/// `[::1]:80`
fn parse_literal(host: &str) -> Result<Vec<u8>, String> {
    let (name, port) = host[1..].rsplit_once(']').ok_or("missing ']' in host")?;
    if !is_optional_port(port) {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    let port = unescape(port, Set::Host)?;
    let (name, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let mut address = unescape(name, Set::Host)?;
    address.extend(unescape(zone, Set::Zone)?);
    let parsed = netip::parse_address(&String::from_utf8_lossy(&address));
    if parsed.map_err(|message| format!("invalid host: {message}"))?.ip.is_ipv4() {
        return Err("invalid IP-literal".to_owned());
    }
    Ok([b"[", &*address, b"]", &*port].concat())
}

pub(super) fn is_optional_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}
