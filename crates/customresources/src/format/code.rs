//! Formats that encode or number things: UUIDs, ISBNs, colours, cards, base64.

fn all_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// White space as RE2's `\s`.
fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ')
}

pub(super) fn is_bson_object_id(text: &str) -> bool {
    text.len() == 24 && all_hex(text)
}

/// Groups of hexadecimal digits with optional dashes between them; of a version, if one is given.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = [""; 5];
    for (i, (group, length)) in groups.iter_mut().zip([8, 4, 4, 4, 12]).enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((digits, after)) if all_hex(digits) => (*group, rest) = (digits, after),
            _ => return false,
        }
    }
    let is_variant = || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty()
        && match version {
            None => true,
            Some('3') => groups[2].starts_with('3'),
            Some(version) => groups[2].starts_with(version) && is_variant(),
        }
}

pub(super) fn is_isbn(text: &str) -> bool {
    is_isbn10(text) || is_isbn13(text)
}

fn without_space_and_dashes(text: &str) -> String {
    text.chars().filter(|c| !is_space(*c) && *c != '-').collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = without_space_and_dashes(text);
    let Some((digits, last)) = text.split_at_checked(9).filter(|(digits, _)| all_digits(digits)) else {
        return false;
    };
    let check = match last.as_bytes() {
        [b'X'] => 10,
        [digit] if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(digits.bytes()).map(|(i, digit)| i * u32::from(digit - b'0')).sum();
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let text = without_space_and_dashes(text);
    if text.len() != 13 || !all_digits(&text) {
        return false;
    }
    let weighted = text.bytes().zip([1, 3].into_iter().cycle());
    weighted.map(|(digit, weight)| u32::from(digit - b'0') * weight).sum::<u32>().is_multiple_of(10)
}

/// The digits of a card of a known issuer, with a valid check digit; all other characters are ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let starts = |length: usize, range: std::ops::RangeInclusive<u32>| {
        digits.get(..length).and_then(|start| start.parse().ok()).is_some_and(|start| range.contains(&start))
    };
    let known = match digits.len() {
        13 => starts(1, 4..=4),
        14 => starts(3, 300..=305) || starts(2, 36..=36) || starts(2, 38..=38),
        15 => starts(2, 34..=34) || starts(2, 37..=37) || starts(4, 2131..=2131) || starts(4, 1800..=1800),
        16 => {
            starts(1, 4..=4)
                || starts(2, 51..=55)
                || starts(4, 6011..=6011)
                || starts(2, 65..=65)
                || starts(2, 35..=35)
        }
        _ => false,
    };
    let doubled = |(i, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0');
        if i % 2 == 0 {
            digit
        } else if digit < 5 {
            digit * 2
        } else {
            digit * 2 - 9
        }
    };
    known && digits.bytes().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

/// Eleven characters: three, two and four digits, with a dash or a space between them.
pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(i, byte)| match i {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && all_hex(digits)
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').take(4).collect();
    let fits = |part: &&str| {
        let digits = part.trim_matches(is_space);
        let plain = digits == "0" || !digits.starts_with('0');
        plain && digits.len() <= 3 && !digits.is_empty() && all_digits(digits) && digits.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(fits)
}

/// Base64 with padding, and not empty.
pub(super) fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(is_digit)
}
