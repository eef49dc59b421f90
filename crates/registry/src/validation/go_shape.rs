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
    /// An amount, which is there even if it is not.
    Quantity,
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

pub(crate) const fn quantity(name: &'static str, key: &'static str) -> Member {
    Member { name, key, kind: Kind::Quantity }
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

/// Items on one line; null if there are none.
pub(crate) fn compact_list(items: &[Value], shape: Shape) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    let items: Vec<String> = items.iter().map(|item| compact(item, shape)).collect();
    format!("[{}]", items.join(","))
}

/// Whether two values mean the same: what is empty may as well be absent, and what is zero where zero is what
/// is absent.
pub(crate) fn same(a: &Value, b: &Value, shape: Shape) -> bool {
    a == b || a.is_null() == b.is_null() && shape.iter().all(|member| same_member(a, b, member))
}

fn same_member(a: &Value, b: &Value, member: &Member) -> bool {
    let of = |value: &Value| value.get(member.key).filter(|part| !is_empty(part, member.kind)).cloned();
    match (of(a), of(b), member.kind) {
        (Some(a), Some(b), Kind::Struct(shape) | Kind::Pointer(shape)) => same(&a, &b, shape),
        (a, b, Kind::Struct(shape)) => {
            same(&a.unwrap_or(Value::object()), &b.unwrap_or(Value::object()), shape)
        }
        (Some(Value::Array(a)), Some(Value::Array(b)), Kind::List(shape)) => {
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b, shape))
        }
        (a, b, _) => a == b,
    }
}

/// Whether a part is as good as absent.
fn is_empty(value: &Value, kind: Kind) -> bool {
    match (value, kind) {
        (Value::Array(items), _) => items.is_empty(),
        (Value::Object(map), Kind::Any | Kind::Omitted) => map.is_empty(),
        (Value::String(text), Kind::Text) => text.is_empty(),
        (value, Kind::Number) => *value == Value::Int(0),
        (value, Kind::Flag) => *value == Value::Bool(false),
        (value, _) => value.is_null(),
    }
}

struct Writer<'a> {
    out: &'a mut String,
    indent: Option<&'static str>,
}

impl Writer<'_> {
    fn members(&mut self, value: &Value, shape: Shape, depth: usize) {
        let there = |member: &&Member| {
            let part = value.get(member.key).filter(|part| !is_empty(part, member.kind));
            !matches!(member.kind, Kind::Omitted) || part.is_some()
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
            Kind::Quantity if value.is_null() => self.out.push_str("\"0\""),
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
            other => self.scalar(other),
        }
    }

    /// What could be taken for markup is spelled out.
    fn scalar(&mut self, value: &Value) {
        for c in json::write_to_string(value).chars() {
            match c {
                '<' => self.out.push_str("\\u003c"),
                '>' => self.out.push_str("\\u003e"),
                '&' => self.out.push_str("\\u0026"),
                c => self.out.push(c),
            }
        }
    }

    fn name(&mut self, name: &str) {
        self.scalar(&Value::from(name));
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
        assert_eq!(compact(&value!({"name": "<b>"}), INNER), r#"{"Name":"\u003cb\u003e","Size":null}"#);
    }

    #[test]
    fn nothing_is_as_good_as_absent() {
        static INNER: Shape = &[text("Name", "name"), any("Size", "size")];
        static OUTER: Shape =
            &[pointer("Gone", "gone", INNER), part("Inner", "inner", INNER), list("Items", "items", INNER)];
        let outer = value!({"inner": {"name": "", "size": {}}, "items": []});
        assert!(same(&outer, &value!({}), OUTER));
        assert!(!same(&outer, &value!({"gone": {}}), OUTER));
        assert!(!same(&value!({"items": [{"name": "a"}]}), &value!({"items": [{"name": "b"}]}), OUTER));
        assert!(!same(&value!({"size": 0}), &value!({}), INNER));
    }
}
