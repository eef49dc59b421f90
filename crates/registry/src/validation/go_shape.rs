//! Values as upstream's own types show them: every field, whether it is there or not, in the order and under
//! the names the type has, which are not those of the API.

use corten_api::{Value, json};

/// A struct, member by member.
pub(crate) type Shape = &'static [Member];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    /// Upstream's name.
    name: &'static str,
    /// The API's name.
    key: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Shown as it is; null if it is not there.
    Any,
    /// The same, but not shown if it is not there.
    Omitted,
    Text,
    Number,
    Flag,
    Struct(Shape),
    Pointer(Shape),
    List(Shape),
}

impl Member {
    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    /// The member of a value, on one line.
    pub(crate) fn shown_in(self, value: &Value) -> String {
        let mut out = String::new();
        let member = value.get(self.key).unwrap_or(&Value::Null);
        Writer { out: &mut out, indent: None }.member(member, self.kind, 0);
        out
    }
}

pub(crate) const fn any(name: &'static str, key: &'static str) -> Member {
    Member { name, key, kind: Kind::Any }
}

const fn omitted(key: &'static str) -> Member {
    Member { name: key, key, kind: Kind::Omitted }
}

pub(crate) const fn text(name: &'static str, key: &'static str) -> Member {
    Member { name, key, kind: Kind::Text }
}

pub(crate) const fn number(name: &'static str, key: &'static str) -> Member {
    Member { name, key, kind: Kind::Number }
}

pub(crate) const fn flag(name: &'static str, key: &'static str) -> Member {
    Member { name, key, kind: Kind::Flag }
}

/// A struct that is part of another.
pub(crate) const fn part(name: &'static str, key: &'static str, shape: Shape) -> Member {
    Member { name, key, kind: Kind::Struct(shape) }
}

/// A struct that may be missing.
pub(crate) const fn pointer(name: &'static str, key: &'static str, shape: Shape) -> Member {
    Member { name, key, kind: Kind::Pointer(shape) }
}

pub(crate) const fn list(name: &'static str, key: &'static str, shape: Shape) -> Member {
    Member { name, key, kind: Kind::List(shape) }
}

/// Upstream shows this one as the API does.
pub(crate) static LABEL_SELECTOR: Shape = &[omitted("matchLabels"), omitted("matchExpressions")];

/// A value on one line; null if it is not there.
pub(crate) fn compact(value: &Value, shape: Shape) -> String {
    let mut out = String::new();
    if value.is_null() {
        out.push_str("null");
    } else {
        Writer { out: &mut out, indent: None }.members(value, shape, 0);
    }
    out
}

/// A value with a line for each member.
pub(crate) fn pretty(value: &Value, shape: Shape) -> String {
    let mut out = String::new();
    Writer { out: &mut out, indent: Some(" ") }.members(value, shape, 0);
    out
}

struct Writer<'a> {
    out: &'a mut String,
    indent: Option<&'static str>,
}

impl Writer<'_> {
    fn members(&mut self, value: &Value, shape: Shape, depth: usize) {
        let there = |member: &&Member| {
            !matches!(member.kind, Kind::Omitted) || value.get(member.key).is_some_and(|part| !part.is_null())
        };
        self.enclosed('{', '}', depth, shape.iter().filter(there), |writer, member| {
            writer.name(member.name);
            writer.member(value.get(member.key).unwrap_or(&Value::Null), member.kind, depth + 1);
        });
    }

    fn member(&mut self, value: &Value, kind: Kind, depth: usize) {
        match kind {
            Kind::Text if value.is_null() => self.out.push_str("\"\""),
            Kind::Number if value.is_null() => self.out.push('0'),
            Kind::Flag if value.is_null() => self.out.push_str("false"),
            Kind::Struct(shape) => self.members(value, shape, depth),
            Kind::Pointer(_) | Kind::List(_) if value.is_null() => self.out.push_str("null"),
            Kind::Pointer(shape) => self.members(value, shape, depth),
            Kind::List(shape) => {
                let items = value.as_array().unwrap_or_default().iter();
                self.enclosed('[', ']', depth, items, |writer, item| writer.members(item, shape, depth + 1));
            }
            _ => self.any(value, depth),
        }
    }

    fn any(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(map) => self.enclosed('{', '}', depth, map.iter(), |writer, (key, part)| {
                writer.name(key);
                writer.any(part, depth + 1);
            }),
            Value::Array(items) => {
                self.enclosed('[', ']', depth, items.iter(), |writer, item| writer.any(item, depth + 1));
            }
            other => self.out.push_str(&json::write_to_string(other)),
        }
    }

    fn name(&mut self, name: &str) {
        self.out.push_str(&json::write_to_string(&Value::from(name)));
        self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
    }

    fn enclosed<T>(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        let mut empty = true;
        for item in items {
            if !empty {
                self.out.push(',');
            }
            empty = false;
            self.new_line(depth + 1);
            write(self, item);
        }
        if !empty {
            self.new_line(depth);
        }
        self.out.push(close);
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn what_is_missing_is_shown_too() {
        static INNER: Shape = &[text("Name", "name"), any("Size", "size")];
        static OUTER: Shape = &[
            pointer("Gone", "gone", INNER),
            part("Inner", "inner", INNER),
            list("Items", "items", INNER),
            flag("On", "on"),
            number("Count", "count"),
        ];
        let tree = value!({"items": [{"name": "a", "size": {"x": 1}}], "count": 3});
        assert_eq!(
            compact(&tree, OUTER),
            r#"{"Gone":null,"Inner":{"Name":"","Size":null},"Items":[{"Name":"a","Size":{"x":1}}],"On":false,"Count":3}"#
        );
        assert_eq!(pretty(&value!({"name": "b"}), INNER), "{\n \"Name\": \"b\",\n \"Size\": null\n}");
        assert_eq!(compact(&Value::Null, OUTER), "null");
    }
}
