//! `$(NAME)` in commands, arguments and variables.
//!
//! A reference to a variable that is not set stays as it is; `$$` is an escaped dollar.

/// Expands every reference to a variable that is set.
pub(crate) fn expand<'a>(text: &str, known: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.as_bytes().first() {
            Some(b'$') => {
                out.push('$');
                &after[1..]
            }
            Some(b'(') => match after.find(')') {
                Some(end) => {
                    match known(&after[1..end]) {
                        Some(value) => out.push_str(value),
                        None => out.push_str(&rest[at..at + end + 2]),
                    }
                    &after[end + 1..]
                }
                None => {
                    out.push('$');
                    after
                }
            },
            _ => {
                out.push('$');
                after
            }
        };
    }
    out + rest
}

/// A reference to a variable that is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("missing value for {0:?}")]
pub(crate) struct MissingVariable(String);

/// Expands every reference, all of which must be set.
pub(crate) fn expand_all(text: &str, environment: &[(String, String)]) -> Result<String, MissingVariable> {
    let missing = std::cell::RefCell::new(None);
    let expanded = expand(text, |name| {
        let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if value.is_none() {
            missing.borrow_mut().get_or_insert_with(|| MissingVariable(name.to_owned()));
        }
        value
    });
    missing.into_inner().map_or(Ok(expanded), Err)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_are_expanded() {
        let known = |name: &str| match name {
            "A" => Some("1"),
            "EMPTY" => Some(""),
            "DOLLAR" => Some("$(A)"),
            _ => None,
        };
        let cases = [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(EMPTY)-", "-"),
            ("$(DOLLAR)", "$(A)"),
            ("$(NONE)", "$(NONE)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("é$(A)é", "é1é"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, known), expected, "{text}");
        }
    }
}
