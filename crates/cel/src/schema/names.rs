//! Names of fields as identifiers: characters that identifiers cannot have, and reserved words, are escaped.

use std::borrow::Cow;

/// Words that cannot be identifiers.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// True for words that cannot be identifiers.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok()
}

/// The identifier for a field; `None` if it has characters that cannot be escaped.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    let special = |byte: u8| matches!(byte, b'.' | b'-' | b'/');
    if name.bytes().any(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || special(byte))) {
        return None;
    }
    if !name.contains("__") && !name.bytes().any(special) {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let (part, length) = match first {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        escaped.push_str(part);
        rest = &rest[length..];
    }
    Some(escaped.into())
}

/// The field that an identifier stands for; `None` if it has an invalid escape.
pub fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut result = String::with_capacity(name.len());
    let mut at = 0;
    while at < name.len() {
        let Some(end) = sequence(&name[at..]) else {
            let first = name[at..].chars().next()?;
            result.push(first);
            at += first.len_utf8();
            continue;
        };
        match &name[at + 2..at + end - 2] {
            "underscores" => result.push_str("__"),
            "dot" => result.push('.'),
            "dash" => result.push('-'),
            "slash" => result.push('/'),
            word if is_reserved(word) && end == name.len() => result.push_str(word),
            _ => return None,
        }
        at += end;
    }
    Some(result.into())
}

/// The length of the escape at the start of a text: two underscores, other characters, two underscores.
fn sequence(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("__")?;
    let length = inner.find('_').unwrap_or(inner.len());
    (length > 0 && inner[length..].starts_with("__")).then_some(length + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, escaped: Option<&str>) {
        assert_eq!(escape(name).as_deref(), escaped, "escape {name:?}");
        if let Some(escaped) = escaped {
            assert_eq!(unescape(escaped).as_deref(), Some(name), "unescape {escaped:?}");
        }
    }

    #[test]
    fn names_become_identifiers() {
        check("replicas", Some("replicas"));
        check("_", Some("_"));
        check("x_y", Some("x_y"));
        check("app-name", Some("app__dash__name"));
        check("a.b/c", Some("a__dot__b__slash__c"));
        check("a__b", Some("a__underscores__b"));
        check("namespace", Some("__namespace__"));
        check("namespaces", Some("namespaces"));
        check("", None);
        check("1a", None);
        check("a b", None);
        check("ä", None);
    }

    #[test]
    fn unknown_escapes_name_no_field() {
        for name in ["__x__", "a__namespace__", "a__dot__b__nope__"] {
            assert_eq!(unescape(name), None, "{name}");
        }
        assert_eq!(unescape("__a").as_deref(), Some("__a"));
    }
}
