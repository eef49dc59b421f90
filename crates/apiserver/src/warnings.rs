//! `Warning` headers of responses.
//!
//! Warnings may quote the request, which may be large. As upstream: duplicates are dropped, and when all warnings together
//! are too long, each is truncated, and those beyond the limit are left out.

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

    fn lengths(warnings: &[String]) -> Vec<usize> {
        let mut headers = HeaderMap::new();
        add(&mut headers, warnings);
        headers.get_all(WARNING).iter().map(|value| value.len() - "299 - \"\"".len()).collect()
    }

    #[test]
    fn warnings_that_are_too_long_together_are_truncated() {
        assert_eq!(lengths(&["a".repeat(3000), "b".repeat(1000), "a".repeat(3000)]), [3000, 1000]);
        assert_eq!(lengths(&["a".repeat(3000), "b".repeat(3000)]), [256, 256]);
        let many: Vec<String> = (0..100_000).map(|i| format!("{i:0300}")).collect();
        assert_eq!(lengths(&many).len(), 16);
        assert_eq!(lengths(&["é".repeat(1 << 20), String::new()]), [512]);
    }
}
