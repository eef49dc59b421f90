//! `$(NAME)` in commands, arguments and variables.
//!
//! What names nothing stays as it is; `$$` is a dollar that expands nothing.

/// Expands every reference that is known.
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

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_are_replaced_by_what_they_name() {
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
