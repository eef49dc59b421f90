//! Character classes of Go's regular expressions: brackets, Perl and POSIX groups, Unicode categories and scripts.
//!
//! Classes are ASCII where Go's are (`\d`, `\w`, `\s`). Names of Unicode groups are those that Go's parser finds:
//! it removes underscores from a name before it looks it up, so scripts of several words do not exist.

use super::syntax::{NEVER, consumed, error, push_literal};

/// Perl and POSIX groups as ranges in a class.
const GROUPS: [(&str, &str); 17] = [
    ("d", "0-9"),
    ("s", r"\t\n\x0C\r\x20"),
    ("w", "0-9A-Z_a-z"),
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", r"\x00-\x7F"),
    ("blank", r"\t\x20"),
    ("cntrl", r"\x00-\x1F\x7F"),
    ("digit", "0-9"),
    ("graph", r"\x21-\x7E"),
    ("lower", "a-z"),
    ("print", r"\x20-\x7E"),
    ("punct", r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E"),
    ("space", r"\t-\r\x20"),
    ("upper", "A-Z"),
    ("word", "0-9A-Z_a-z"),
    ("xdigit", "0-9A-Fa-f"),
];

/// Unicode categories and their names, in the form that names are compared in.
#[rustfmt::skip]
const CATEGORIES: [&str; 80] = [
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Lc", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    "Casedletter", "Closepunctuation", "Cntrl", "Combiningmark", "Connectorpunctuation", "Control", "Currencysymbol",
    "Dashpunctuation", "Decimalnumber", "Digit", "Enclosingmark", "Finalpunctuation", "Format", "Initialpunctuation",
    "Letter", "Letternumber", "Lineseparator", "Lowercaseletter", "Mark", "Mathsymbol", "Modifierletter",
    "Modifiersymbol", "Nonspacingmark", "Number", "Openpunctuation", "Other", "Otherletter", "Othernumber",
    "Otherpunctuation", "Othersymbol", "Paragraphseparator", "Privateuse", "Punct", "Punctuation", "Separator",
    "Spaceseparator", "Spacingmark", "Surrogate", "Symbol", "Titlecaseletter", "Unassigned", "Uppercaseletter",
];

/// Scripts whose names are one word.
#[rustfmt::skip]
const SCRIPTS: [&str; 117] = [
    "Adlam", "Ahom", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bhaiksuki", "Bopomofo",
    "Brahmi", "Braille", "Buginese", "Buhid", "Carian", "Chakma", "Cham", "Cherokee", "Chorasmian", "Common", "Coptic",
    "Cuneiform", "Cypriot", "Cyrillic", "Deseret", "Devanagari", "Dogra", "Duployan", "Elbasan", "Elymaic", "Ethiopic",
    "Georgian", "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hanunoo",
    "Hatran", "Hebrew", "Hiragana", "Inherited", "Javanese", "Kaithi", "Kannada", "Katakana", "Kawi", "Kharoshthi",
    "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Lisu", "Lycian", "Lydian", "Mahajani",
    "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen", "Medefaidrin", "Miao", "Modi", "Mongolian", "Mro",
    "Multani", "Myanmar", "Nabataean", "Nandinagari", "Newa", "Nko", "Nushu", "Ogham", "Oriya", "Osage", "Osmanya",
    "Palmyrene", "Phoenician", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian", "Siddham",
    "Sinhala", "Sogdian", "Soyombo", "Sundanese", "Syriac", "Tagalog", "Tagbanwa", "Takri", "Tamil", "Tangsa",
    "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai", "Vithkuqi",
    "Wancho", "Yezidi", "Yi",
];

/// The first and the last surrogate, which no text contains.
const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);

/// Translates a class in brackets at the start of `text`. Returns it, the number of characters in its ranges, and the
/// rest.
pub(super) fn parse(text: &str) -> Result<(String, usize, &str), String> {
    let (negated, mut rest) = match text[1..].strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, &text[1..]),
    };
    let mut items = String::new();
    let (mut first, mut width) = (true, 0);
    while first || !rest.starts_with(']') {
        first = false;
        if let Some((item, after)) = posix(rest)? {
            items.push_str(&item);
            rest = after;
        } else if let Some((item, after)) = escaped(rest)? {
            items.push_str(&item);
            rest = after;
        } else {
            rest = range(rest, text, &mut items, &mut width)?;
        }
    }
    let class = match (items.is_empty(), negated) {
        (true, false) => NEVER.to_owned(),
        (true, true) => "(?s:.)".to_owned(),
        (false, false) => format!("[{items}]"),
        (false, true) => format!("[^{items}]"),
    };
    Ok((class, width, &rest[1..]))
}

/// One character or a range of a class; `class` is the text of the class.
fn range<'t>(text: &'t str, class: &str, items: &mut String, width: &mut usize) -> Result<&'t str, String> {
    let (low, mut rest) = character(text, class)?;
    let mut high = low;
    if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
        (high, rest) = character(&rest[1..], class)?;
        if high < low {
            return Err(error("invalid character class range", consumed(text, rest)));
        }
    }
    let low = if (SURROGATES.0..=SURROGATES.1).contains(&low) { SURROGATES.1 + 1 } else { low };
    let high = if (SURROGATES.0..=SURROGATES.1).contains(&high) { SURROGATES.0 - 1 } else { high };
    if low <= high {
        *width = width.saturating_add((high - low) as usize);
        push_literal(items, low);
        items.push('-');
        push_literal(items, high);
    }
    Ok(rest)
}

fn character<'t>(text: &'t str, class: &str) -> Result<(u32, &'t str), String> {
    match text.chars().next() {
        None => Err(error("missing closing ]", class)),
        Some('\\') => escaped_character(text),
        Some(c) => Ok((c.into(), &text[c.len_utf8()..])),
    }
}

/// `[:alpha:]`, inside a class.
fn posix(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some((name, rest)) = text.strip_prefix("[:").and_then(|text| text.split_once(":]")) else {
        return Ok(None);
    };
    let (negated, bare) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
    match GROUPS.iter().find(|(group, _)| group.len() > 1 && *group == bare) {
        Some((_, ranges)) => Ok(Some((group(ranges, negated), rest))),
        None => Err(error("invalid character class range", consumed(text, rest))),
    }
}

/// A Perl or Unicode group at the start of `text`, as items of a class.
pub(super) fn escaped(text: &str) -> Result<Option<(String, &str)>, String> {
    let mut chars = text.chars();
    if chars.next() != Some('\\') {
        return Ok(None);
    }
    let Some(letter) = chars.next() else { return Ok(None) };
    if matches!(letter, 'p' | 'P') {
        return unicode(text).map(Some);
    }
    let name = letter.to_ascii_lowercase().to_string();
    let ranges = GROUPS.iter().find(|(group, _)| *group == name).map(|(_, ranges)| *ranges);
    Ok(ranges.map(|ranges| (group(ranges, letter.is_ascii_uppercase()), chars.as_str())))
}

fn group(ranges: &str, negated: bool) -> String {
    if negated { format!("[^{ranges}]") } else { ranges.to_owned() }
}

/// `\pL`, `\P{Greek}`, `\p{^Greek}`.
fn unicode(text: &str) -> Result<(String, &str), String> {
    let invalid = |sequence: &str| error("invalid character class range", sequence);
    let mut negated = text.starts_with(r"\P");
    let mut chars = text[2..].chars();
    let (name, rest) = match chars.next() {
        Some('{') => chars.as_str().split_once('}').ok_or_else(|| invalid(text))?,
        _ => (consumed(&text[2..], chars.as_str()), chars.as_str()),
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negated = !negated;
            name
        }
        None => name,
    };
    let ranges = match &*canonical(name) {
        "Any" => r"\x{0}-\x{10FFFF}".to_owned(),
        "Assigned" => r"\P{Cn}".to_owned(),
        "Ascii" => r"\x00-\x7F".to_owned(),
        "Cs" | "Surrogate" => NEVER.to_owned(),
        name if CATEGORIES.contains(&name) || SCRIPTS.contains(&name) => format!(r"\p{{{name}}}"),
        _ => return Err(invalid(consumed(text, rest))),
    };
    Ok((group(&ranges, negated), rest))
}

/// The form in which Go compares names: one capital, no separators.
fn canonical(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        out.push(if out.is_empty() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
    }
    out
}

/// An escape sequence that stands for one character.
pub(super) fn escaped_character(text: &str) -> Result<(u32, &str), String> {
    let mut chars = text[1..].chars();
    let Some(c) = chars.next() else {
        return Err(error("trailing backslash at end of expression", ""));
    };
    let is_octal = |c: Option<char>| c.is_some_and(|c| matches!(c, '0'..='7'));
    let code = match c {
        'a' => 0x07,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'v' => 0x0B,
        'x' => return hexadecimal(text),
        '0'..='7' if c == '0' || is_octal(chars.clone().next()) => {
            let mut code = u32::from(c) - u32::from('0');
            for _ in 1..3 {
                let Some(digit) = chars.clone().next().filter(|c| is_octal(Some(*c))) else { break };
                code = code * 8 + u32::from(digit) - u32::from('0');
                chars.next();
            }
            code
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c.into(),
        _ => return Err(error("invalid escape sequence", consumed(text, chars.as_str()))),
    };
    Ok((code, chars.as_str()))
}

/// `\x41` or `\x{1F600}`.
fn hexadecimal(text: &str) -> Result<(u32, &str), String> {
    let mut chars = text[2..].chars();
    let invalid = |rest: &str| error("invalid escape sequence", consumed(text, rest));
    let mut code = 0u32;
    if !text[2..].starts_with('{') {
        for digit in [chars.next(), chars.next()] {
            let value = digit.and_then(|digit| digit.to_digit(16)).ok_or_else(|| invalid(chars.as_str()))?;
            code = code * 16 + value;
        }
        return Ok((code, chars.as_str()));
    }
    chars.next();
    let mut digits = 0;
    loop {
        match chars.next() {
            Some('}') if digits > 0 => return Ok((code, chars.as_str())),
            Some(c) => {
                let value = c.to_digit(16).ok_or_else(|| invalid(chars.as_str()))?;
                code = code * 16 + value;
                if code > u32::from(char::MAX) {
                    return Err(invalid(chars.as_str()));
                }
                digits += 1;
            }
            None => return Err(invalid("")),
        }
    }
}

/// All names of Unicode groups.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CATEGORIES.into_iter().chain(SCRIPTS)
}
