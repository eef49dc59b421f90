//! Formats of strings and numbers that upstream v1.37 validates.
//!
//! Upstream ignores every other format, and compares names without dashes. One line in `STRINGS` is one format.

mod address;
mod code;
mod email;
mod moment;
mod uri;

use corten_api::Str;

use crate::schema::{Node, Type};

/// Returns true for texts that have the format.
pub(crate) type Predicate = fn(&str) -> bool;

/// A format that restricts values.
#[derive(Debug)]
pub(crate) struct Format {
    /// As the schema spells it, for messages.
    pub(crate) name: Box<Str>,
    /// None for formats of numbers, and for unknown ones.
    pub(crate) check: Option<Predicate>,
}

/// Formats of strings by their name without dashes.
const STRINGS: [(&str, Predicate); 26] = [
    ("bsonobjectid", code::is_bson_object_id),
    ("byte", code::is_base64),
    ("cidr", address::is_cidr),
    ("creditcard", code::is_credit_card),
    ("date", moment::is_date),
    ("datetime", moment::is_date_time),
    ("duration", moment::is_duration),
    ("email", email::is_email),
    ("hexcolor", code::is_hex_color),
    ("hostname", address::is_hostname),
    ("ipv4", address::is_ipv4),
    ("ipv6", address::is_ipv6),
    ("isbn", code::is_isbn),
    ("isbn10", code::is_isbn10),
    ("isbn13", code::is_isbn13),
    ("k8slongname", address::is_long_name),
    ("k8sshortname", address::is_short_name),
    ("mac", address::is_mac),
    ("password", |_| true),
    ("rgbcolor", code::is_rgb_color),
    ("ssn", code::is_ssn),
    ("uri", uri::is_request_uri),
    ("uuid", |text| code::is_uuid(text, None)),
    ("uuid3", |text| code::is_uuid(text, Some('3'))),
    ("uuid4", |text| code::is_uuid(text, Some('4'))),
    ("uuid5", |text| code::is_uuid(text, Some('5'))),
];

impl Format {
    pub(crate) fn new(name: &str) -> Format {
        let plain = name.replace('-', "");
        let known = STRINGS.iter().find(|(known, _)| *known == plain);
        Format { name: Box::new(Str::new(name)), check: known.map(|(_, check)| *check) }
    }

    /// Returns true if upstream validates the format for values of the node's type.
    pub(crate) fn is_supported(&self, node: &Node) -> bool {
        match (node.kind, node.int_or_string) {
            (Type::Any | Type::String, _) | (_, true) => self.check.is_some(),
            (Type::Integer, _) => matches!(self.name.as_str(), "int32" | "int64"),
            (Type::Number, _) => matches!(self.name.as_str(), "float" | "double"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
