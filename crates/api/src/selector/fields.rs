//! Field selectors: equality of fields only. The server defines the selectable fields of a resource.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;
use crate::value::Str;

/// The requirement on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: Str,
    /// True if the field must have the value, false if it must not.
    pub equal: bool,
    pub value: Str,
}

/// A selector over fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    pub const fn everything() -> FieldSelector {
        FieldSelector { requirements: Vec::new() }
    }

    /// One field having one value.
    pub fn equal(field: &str, value: &str) -> FieldSelector {
        let (field, value) = (Str::new(field), Str::new(value));
        FieldSelector { requirements: vec![FieldRequirement { field, equal: true, value }] }
    }

    /// All of the requirements.
    pub fn all(requirements: Vec<FieldRequirement>) -> FieldSelector {
        FieldSelector { requirements }
    }

    /// Parses a query parameter: `metadata.name=x,spec.nodeName!=y`.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            requirements.push(parse_term(term, text)?);
        }
        // A bare operator requires nothing.
        requirements.retain(|wanted| !wanted.field.is_empty() || !wanted.value.is_empty());
        Ok(FieldSelector { requirements })
    }

    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The selector without the requirements that `keep` refuses.
    pub fn filtered(mut self, keep: impl FnMut(&FieldRequirement) -> bool) -> FieldSelector {
        self.requirements.retain(keep);
        self
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The one value that the selector requires of a field, if any.
    pub fn require_exact_match(&self, field: &str) -> Option<&str> {
        let wanted = self.requirements.iter().find(|wanted| wanted.equal && wanted.field == field)?;
        Some(&wanted.value)
    }

    /// Returns true if the fields that `get` returns satisfy the selector; an absent field is empty.
    pub fn matches_with<'f>(&self, get: impl Fn(&str) -> Cow<'f, str>) -> bool {
        self.requirements.iter().all(|wanted| (get(&wanted.field) == wanted.value.as_str()) == wanted.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, wanted) in self.requirements.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if wanted.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", wanted.field, escape_field_value(&wanted.value))?;
        }
        Ok(())
    }
}

/// A value as it is escaped in a field selector.
pub fn escape_field_value(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

fn parse_term(term: &str, selector: &str) -> Result<FieldRequirement, SelectorError> {
    let split = term.char_indices().find_map(|(at, _)| {
        ["!=", "==", "="]
            .into_iter()
            .find(|operator| term[at..].starts_with(operator))
            .map(|found| (at, found))
    });
    let Some((at, operator)) = split else {
        return Err(SelectorError(format!("invalid selector: '{selector}'; can't understand '{term}'")));
    };
    let value = unescape(&term[at + operator.len()..])?;
    Ok(FieldRequirement { field: Str::new(&term[..at]), equal: operator != "!=", value })
}

fn unescape(text: &str) -> Result<Str, SelectorError> {
    if !text.contains(['\\', ',', '=']) {
        return Ok(Str::new(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            // Upstream prints the number of the character.
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                )));
            }
            c => out.push(c),
        }
    }
    Ok(Str::from(out))
}
