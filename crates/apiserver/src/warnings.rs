//! `Warning` headers: what a client is told although its request is answered.
//!
//! Warnings may quote what the client sent, which may be large. As upstream: each is said once, and when all of
//! them are longer than a client can be expected to read, each is cut, and those beyond the limit are left out.

use std::collections::HashSet;

use http::HeaderMap;
use http::HeaderValue;
use http::header::WARNING;

const MAX_CHARACTERS: usize = 4 * 1024;
const MAX_CHARACTERS_EACH: usize = 256;

/// Adds a header for each warning.
pub(crate) fn add(headers: &mut HeaderMap, warnings: &[impl AsRef<str>]) {
    let mut seen = HashSet::new();
    let warnings: Vec<&str> =
        warnings.iter().map(AsRef::as_ref).filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    let length = |text: &str| text.chars().take(MAX_CHARACTERS + 1).count();
    let is_short =
        warnings.iter().try_fold(MAX_CHARACTERS, |left, text| left.checked_sub(length(text))).is_some();
    let mut written = 0;
    for text in warnings {
        if written >= MAX_CHARACTERS {
            break;
        }
        let end = text.char_indices().nth(MAX_CHARACTERS_EACH).filter(|_| !is_short).map(|(at, _)| at);
        let text = &text[..end.unwrap_or(text.len())];
        written += text.chars().count();
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(warnings: &[String]) -> Vec<usize> {
        let mut headers = HeaderMap::new();
        add(&mut headers, warnings);
        headers.get_all(WARNING).iter().map(|value| value.len() - "299 - \"\"".len()).collect()
    }

    #[test]
    fn warnings_are_cut_where_they_are_too_long_together() {
        assert_eq!(said(&["a".repeat(3000), "b".repeat(1000), "a".repeat(3000)]), [3000, 1000]);
        assert_eq!(said(&["a".repeat(3000), "b".repeat(3000)]), [256, 256]);
        let many: Vec<String> = (0..100_000).map(|i| format!("{i:0300}")).collect();
        assert_eq!(said(&many).len(), 16);
        assert_eq!(said(&["é".repeat(1 << 20), String::new()]), [512]);
    }
}
