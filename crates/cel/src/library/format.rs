//! Named formats of texts: `format.dns1123Label()` and others, `format.named`, `validate`.

use std::any::Any;

use corten_api::names::{NameRule, label_value, qualified_name};

use super::arguments::{declare, opaque, text};
use super::url::check_request_uri;
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("format.dns1123Label", "format.dns1123Label", CONSTANT, |_| constant("dns1123Label")),
    declare("format.dns1123Subdomain", "format.dns1123Subdomain", CONSTANT, |_| constant("dns1123Subdomain")),
    declare("format.dns1035Label", "format.dns1035Label", CONSTANT, |_| constant("dns1035Label")),
    declare("format.qualifiedName", "format.qualifiedName", CONSTANT, |_| constant("qualifiedName")),
    declare("format.dns1123LabelPrefix", "format.dns1123LabelPrefix", CONSTANT, |_| {
        constant("dns1123LabelPrefix")
    }),
    declare("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix", CONSTANT, |_| {
        constant("dns1123SubdomainPrefix")
    }),
    declare("format.dns1035LabelPrefix", "format.dns1035LabelPrefix", CONSTANT, |_| {
        constant("dns1035LabelPrefix")
    }),
    declare("format.labelValue", "format.labelValue", CONSTANT, |_| constant("labelValue")),
    declare("format.uri", "format.uri", CONSTANT, |_| constant("uri")),
    declare("format.uuid", "format.uuid", CONSTANT, |_| constant("uuid")),
    declare("format.byte", "format.byte", CONSTANT, |_| constant("byte")),
    declare("format.date", "format.date", CONSTANT, |_| constant("date")),
    declare("format.datetime", "format.datetime", CONSTANT, |_| constant("datetime")),
    declare("format.named", "format-named", "(string) optional_type(kubernetes.NamedFormat)", named),
    declare(
        "validate",
        "format-validate",
        "kubernetes.NamedFormat.(string) optional_type(list(string))",
        validate,
    ),
];

const CONSTANT: &str = "() kubernetes.NamedFormat";

/// A named format.
#[derive(Clone, Copy)]
struct Format {
    /// The name in expressions.
    name: &'static str,
    /// Errors of a text, none if it is valid.
    check: fn(&str) -> Vec<String>,
    /// The size that upstream assumes for the format's regular expression.
    regex_size: u64,
}

const FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", check: |text| NameRule::DnsLabel.check(text), regex_size: 30 },
    Format { name: "dns1123Subdomain", check: |text| NameRule::DnsSubdomain.check(text), regex_size: 60 },
    Format { name: "dns1035Label", check: |text| NameRule::Dns1035Label.check(text), regex_size: 30 },
    Format { name: "qualifiedName", check: qualified_name, regex_size: 60 },
    Format {
        name: "dns1123LabelPrefix",
        check: |text| NameRule::DnsLabel.check_prefix(text),
        regex_size: 30,
    },
    Format {
        name: "dns1123SubdomainPrefix",
        check: |text| NameRule::DnsSubdomain.check_prefix(text),
        regex_size: 60,
    },
    Format {
        name: "dns1035LabelPrefix",
        check: |text| NameRule::Dns1035Label.check_prefix(text),
        regex_size: 30,
    },
    Format { name: "labelValue", check: label_value, regex_size: 40 },
    Format {
        name: "uri",
        check: |text| check_request_uri(text).err().into_iter().collect(),
        regex_size: 1103,
    },
    Format {
        name: "uuid",
        check: |text| rule(is_uuid(text), "does not match the UUID format"),
        regex_size: 70,
    },
    Format { name: "byte", check: |text| rule(is_base64(text), "invalid base64"), regex_size: 84 },
    Format { name: "date", check: |text| rule(is_date(text), "invalid date"), regex_size: 71 },
    Format { name: "datetime", check: |text| rule(is_datetime(text), "invalid datetime"), regex_size: 71 },
];

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Opaque for Format {
    fn type_name(&self) -> &'static str {
        "kubernetes.NamedFormat"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn Any).downcast_ref().map(|other: &Format| self.name == other.name)
    }

    /// The cost of `validate` depends on it.
    fn size(&self) -> Option<u64> {
        Some(self.regex_size)
    }
}

fn rule(valid: bool, message: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![message.to_owned()] }
}

/// Hexadecimal digits in groups; the dashes between them may be absent.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (i, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let digits = rest.bytes().take(length).filter(u8::is_ascii_hexdigit).count();
        if digits < length {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

/// Groups of four characters, the last one with padding. An empty text is none.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// `2024-02-29`
fn is_date(text: &str) -> bool {
    let Some(numbers) = split_numbers(text, b'-', &[4, 2, 2]) else { return false };
    let [year, month, day] = numbers[..] else { return false };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A date and a time with a zone. A fraction follows any character, and the offset can be any number.
fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let Some(clock) = split_numbers(clock, b':', &[2, 2, 2]) else { return false };
    let mut chars = rest.chars();
    let has_fraction = chars.next().is_some_and(|c| c != '\n');
    let after = chars.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    let fraction_ends = has_fraction && after.len() < chars.as_str().len() && is_zone(after);
    is_date(date) && clock[0] <= 23 && clock[1] <= 59 && clock[2] <= 59 && (is_zone(rest) || fraction_ends)
}

fn is_zone(text: &str) -> bool {
    text == "z"
        || text.strip_prefix(['+', '-']).is_some_and(|text| split_numbers(text, b':', &[2, 2]).is_some())
}

/// Numbers of these lengths between separators.
fn split_numbers(text: &str, separator: u8, lengths: &[usize]) -> Option<Vec<u32>> {
    let parts: Vec<&str> = text.split(char::from(separator)).collect();
    let fits = |(part, length): (&&str, &usize)| {
        part.len() == *length && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() != lengths.len() || !parts.iter().zip(lengths).all(fits) {
        return None;
    }
    parts.into_iter().map(|part| part.parse().ok()).collect()
}

fn find(name: &str) -> Option<Format> {
    FORMATS.into_iter().find(|format| format.name == name)
}

fn constant<'a>(name: &str) -> Result<Value<'a>> {
    find(name).map(Value::opaque).ok_or(Error::no_such_overload())
}

fn named<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(find(text(arguments, 0)?).map_or(Value::Optional(None), |format| Value::some(Value::opaque(format))))
}

fn validate<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let format: &Format = opaque(arguments, 0)?;
    let errors = (format.check)(text(arguments, 1)?);
    if errors.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(errors.into_iter().map(Value::text).collect::<Vec<_>>())))
}
