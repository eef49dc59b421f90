//! Formats of addresses and names: IP addresses, CIDRs, MAC addresses, host names, Kubernetes names.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use corten_api::names;
use regex::Regex;

/// Returns true for an IPv4 address, also with leading zeros, and for an IPv6 address that contains one.
pub(super) fn is_ipv4(text: &str) -> bool {
    match text.find(['.', ':']) {
        Some(at) if text.as_bytes()[at] == b'.' => is_sloppy_ipv4(text),
        Some(_) => text.contains('.') && is_sloppy_ipv6(text),
        None => false,
    }
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits = if is_sloppy_ipv4(address) {
        32
    } else if is_sloppy_ipv6(address) {
        128
    } else {
        return false;
    };
    decimal(length).is_some_and(|length| length <= bits)
}

/// Decimal digits, of any number, with a small value.
fn decimal(text: &str) -> Option<u32> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    let value = || if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    is_decimal.then(value)?
}

/// Four numbers, also with leading zeros.
fn is_sloppy_ipv4(text: &str) -> bool {
    let mut count = 0;
    text.split('.').all(|part| {
        count += 1;
        decimal(part).is_some_and(|part| part <= 255)
    }) && count == 4
}

/// An IPv6 address whose groups, and numbers of the IPv4 address at its end, may have leading zeros.
fn is_sloppy_ipv6(text: &str) -> bool {
    let (groups, ipv4) = match text.rsplit_once(':') {
        Some((before, last)) if last.contains('.') => {
            if !is_sloppy_ipv4(last) {
                return false;
            }
            (format!("{before}:0:0"), true)
        }
        _ => (text.to_owned(), false),
    };
    let plain: Vec<&str> = groups
        .split(':')
        .map(|group| match group.trim_start_matches('0') {
            "" if !group.is_empty() => "0",
            rest => rest,
        })
        .collect();
    (!ipv4 || !text.is_empty()) && plain.join(":").parse::<Ipv6Addr>().is_ok()
}

/// Six, eight or twenty bytes: in pairs of digits after colons or dashes, or in fours after dots.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, digits) = match (text.as_bytes().get(2), text.as_bytes().get(4)) {
        (Some(b':'), _) => (':', 2),
        (Some(b'-'), _) => ('-', 2),
        (_, Some(b'.')) => ('.', 4),
        _ => return false,
    };
    let fits = |part: &str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let count = text.split(separator).count() * digits / 2;
    matches!(count, 6 | 8 | 20) && text.split(separator).all(fits)
}

/// Letters and symbols of any script.
static LETTER_OR_SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{S}]$").ok());
static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());

fn is_one_of(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    class.as_ref().is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
}

fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || is_one_of(&LETTER_OR_SYMBOL, c)
}

/// A host name by upstream's expression: one label with a dash after its first character at most, or several labels
/// and a top-level domain of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    const MAX_BYTES: usize = 255;
    const MAX_LABEL_BYTES: usize = 63;
    if text.len() > MAX_BYTES || text.split('.').any(|label| label.len() > MAX_LABEL_BYTES) {
        return false;
    }
    let Some((labels, top)) = text.rsplit_once('.') else { return is_only_label(text) };
    let is_letter = |c: char| c.is_ascii_alphabetic() || is_one_of(&LETTER, c);
    let top_length = top.chars().count();
    labels.split('.').all(is_label) && (2..=63).contains(&top_length) && top.chars().all(is_letter)
}

fn is_only_label(label: &str) -> bool {
    let mut rest = label.chars();
    if !rest.next().is_some_and(is_host_character) {
        return false;
    }
    let rest = rest.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    rest.chars().count() <= 62 && rest.chars().all(is_host_character)
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c == '-' || is_host_character(c);
    let edge = |c: Option<char>| c.is_some_and(is_host_character);
    edge(label.chars().next())
        && edge(label.chars().next_back())
        && label.chars().count() <= 63
        && label.chars().all(inner)
}

pub(super) fn is_short_name(text: &str) -> bool {
    names::is_dns1123_label(text)
}

pub(super) fn is_long_name(text: &str) -> bool {
    const MAX_BYTES: usize = 253;
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(letter)
            && bytes.last().is_some_and(letter)
            && bytes.iter().all(|byte| letter(byte) || *byte == b'-')
    };
    text.len() <= MAX_BYTES && text.split('.').all(is_segment)
}
