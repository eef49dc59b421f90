//! Objects in messages that print more than a word: in upstream's internal form, which has
//! every field, in an order and with names of its own.
//!
//! Only invalid values are printed, so none of this needs to be fast. The table contains the types.

use std::collections::HashMap;
use std::sync::OnceLock;

use corten_api::{Value, json};

const TABLE: &str = include_str!("internal_form.txt");
/// The one type of messages that prints members' names.
const SELECTOR: &str = "LabelSelector";

struct Shape {
    /// The field's name.
    name: &'static str,
    /// Its member in the object; by default the field's name in lower case.
    member: String,
    holds: Holds,
}

#[derive(Clone, Copy)]
enum Holds {
    /// Any value; this if it is absent.
    Plain(&'static str),
    Struct(&'static str),
    Pointer(&'static str),
    List(&'static str),
    /// An object's metadata, whose members are written among the fields, with their own names.
    Metadata,
    /// A list of objects with the names and the order of these members; absent ones are left out.
    Named(&'static [&'static str]),
}

impl Holds {
    /// Of a member of an object's metadata.
    fn of_metadata(member: &str) -> Holds {
        match member {
            "ownerReferences" => {
                Holds::Named(&["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"])
            }
            "managedFields" => Holds::Named(&[
                "manager",
                "operation",
                "apiVersion",
                "time",
                "fieldsType",
                "fieldsV1",
                "subresource",
            ]),
            _ => Holds::Plain("null"),
        }
    }
}

fn shapes() -> &'static HashMap<&'static str, Vec<Shape>> {
    static SHAPES: OnceLock<HashMap<&str, Vec<Shape>>> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let mut shapes: HashMap<&str, Vec<Shape>> = HashMap::new();
        let mut current = "";
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("  ").and_then(|field| field.split_once(' ')) {
                Some((name, holds)) => shapes.entry(current).or_default().push(field(name, holds)),
                None => {
                    current = line;
                    shapes.entry(current).or_default();
                }
            }
        }
        shapes
    })
}

fn field(name: &'static str, holds: &'static str) -> Shape {
    let (name, member) = match name.split_once('=') {
        Some((name, member)) => (name, member.to_owned()),
        None => {
            let (first, rest) = name.split_at(1);
            (name, first.to_lowercase() + rest)
        }
    };
    let holds = match (holds.strip_prefix("[]"), holds.strip_prefix('*')) {
        _ if holds == "inline" => Holds::Metadata,
        (Some(kind), _) => Holds::List(kind),
        (_, Some(kind)) => Holds::Pointer(kind),
        _ if holds.starts_with(|c: char| c.is_ascii_uppercase()) => Holds::Struct(holds),
        _ => Holds::Plain(holds),
    };
    Shape { name, member, holds }
}

/// A value of a type on one line.
pub(crate) fn compact(kind: &str, value: &Value) -> String {
    written(kind, value, Writer { out: String::new(), indent: None, blurs: false })
}

/// A value of a type with a line for each field.
pub(crate) fn pretty(kind: &str, value: &Value) -> String {
    written(kind, value, Writer { out: String::new(), indent: Some(0), blurs: false })
}

/// Returns true if two values of a type are equal, with empty and absent values being the same.
pub(crate) fn same(kind: &str, a: &Value, b: &Value) -> bool {
    let blurred = |value| written(kind, value, Writer { out: String::new(), indent: None, blurs: true });
    blurred(a) == blurred(b)
}

fn written(kind: &str, value: &Value, mut writer: Writer) -> String {
    match value {
        Value::Null => writer.out.push_str("null"),
        value => writer.structure(kind, value),
    }
    writer.out
}

/// Items of a type on one line; null if there are none.
pub(crate) fn compact_list(kind: &str, items: &[Value]) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    let items: Vec<String> = items.iter().map(|item| compact(kind, item)).collect();
    format!("[{}]", items.join(","))
}

/// The members of an object's metadata that are set, in the order of upstream's type.
pub(crate) fn metadata_members(metadata: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    const ORDER: [&str; 14] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    ];
    let keys = ORDER.into_iter().chain(["managedFields"]);
    keys.filter_map(move |key| Some((key, metadata.get(key).filter(|value| !value.is_null())?)))
}

/// A member of an object's metadata on one line.
pub(crate) fn compact_metadata(member: &str, value: &Value) -> String {
    let mut writer = Writer { out: String::new(), indent: None, blurs: false };
    writer.field(Holds::of_metadata(member), value);
    writer.out
}

struct Writer {
    out: String,
    /// The depth in the pretty form.
    indent: Option<usize>,
    /// True if empty values are written like absent ones.
    blurs: bool,
}

impl Writer {
    fn structure(&mut self, kind: &str, value: &Value) {
        if kind == SELECTOR {
            return self.selector(value);
        }
        let fields = shapes().get(kind).map_or(&[][..], Vec::as_slice);
        let mut members: Vec<(&str, Holds, &Value)> = Vec::new();
        for field in fields {
            let member = value.get(&field.member).unwrap_or(&Value::Null);
            match field.holds {
                Holds::Metadata => {
                    members.extend(
                        metadata_members(member).map(|(key, value)| (key, Holds::of_metadata(key), value)),
                    );
                }
                holds => members.push((field.name, holds, member)),
            }
        }
        self.enclosed('{', '}', members.into_iter(), |writer, (name, holds, member)| {
            writer.key(name);
            writer.field(holds, member);
        });
    }

    fn field(&mut self, holds: Holds, value: &Value) {
        let empty = match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty() && matches!(holds, Holds::Plain(_)),
            _ => false,
        };
        match (holds, if self.blurs && empty { &Value::Null } else { value }) {
            (Holds::Plain(zero), Value::Null) => self.out.push_str(zero),
            (Holds::Pointer(_) | Holds::List(_), Value::Null) => self.out.push_str("null"),
            (Holds::Named(names), Value::Array(items)) => {
                self.enclosed('[', ']', items.iter(), |writer, item| writer.named(names, item));
            }
            (Holds::Plain(_) | Holds::Metadata | Holds::Named(_), value) => self.plain(value),
            (Holds::Struct(kind) | Holds::Pointer(kind), value) => self.structure(kind, value),
            (Holds::List(kind), value) => {
                let items = value.as_array().unwrap_or_default();
                self.enclosed('[', ']', items.iter(), |writer, item| writer.structure(kind, item));
            }
        }
    }

    /// Writes a value unchanged.
    fn plain(&mut self, value: &Value) {
        match value {
            Value::Object(map) => self.enclosed('{', '}', map.iter(), |writer, (key, value)| {
                writer.key(key);
                writer.plain(value);
            }),
            Value::Array(items) => self.enclosed('[', ']', items.iter(), Writer::plain),
            // Characters of markup are escaped.
            other => self.out.push_str(
                &json::write_to_string(other)
                    .replace('<', "\\u003c")
                    .replace('>', "\\u003e")
                    .replace('&', "\\u0026"),
            ),
        }
    }

    fn named(&mut self, names: &'static [&'static str], value: &Value) {
        let members: Vec<(&str, &Value)> =
            names.iter().filter_map(|name| Some((*name, value.get(name)?))).collect();
        self.enclosed('{', '}', members.into_iter(), |writer, (name, value)| {
            writer.key(name);
            writer.plain(value);
        });
    }

    /// A selector has the names of its members that are set.
    fn selector(&mut self, value: &Value) {
        let says = |value: &&Value| match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        let members = ["matchLabels", "matchExpressions"];
        let members = members.into_iter().filter_map(|key| Some((key, value.get(key).filter(says)?)));
        let members: Vec<(&str, &Value)> = members.collect();
        self.enclosed('{', '}', members.into_iter(), |writer, (key, value)| {
            writer.key(key);
            writer.plain(value);
        });
    }

    fn key(&mut self, name: &str) {
        self.plain(&Value::from(name));
        self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
    }

    fn enclosed<T>(
        &mut self,
        open: char,
        close: char,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) {
        let empty = items.len() == 0;
        self.out.push(open);
        self.indent = self.indent.map(|indent| indent + 1);
        for (i, item) in items.enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.new_line();
            write(self, item);
        }
        self.indent = self.indent.map(|indent| indent.saturating_sub(1));
        if !empty {
            self.new_line();
        }
        self.out.push(close);
    }

    fn new_line(&mut self) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent));
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn every_type_that_is_named_is_there() {
        for (kind, fields) in shapes() {
            assert!(!fields.is_empty(), "{kind}");
            for field in fields {
                if let Holds::Struct(held) | Holds::Pointer(held) | Holds::List(held) = field.holds {
                    assert!(held == SELECTOR || shapes().contains_key(held), "{kind}.{}: {held}", field.name);
                }
            }
        }
    }

    #[test]
    fn objects_have_all_their_fields() {
        let toleration = value!({"key": "a<b", "tolerationSeconds": 3});
        assert_eq!(
            compact("Toleration", &toleration),
            r#"{"Key":"a\u003cb","Operator":"","Value":"","Effect":"","TolerationSeconds":3}"#
        );
        let term = value!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
        let expected = "{\n \"MatchExpressions\": [\n  {\n   \"Key\": \"a\",\n   \"Operator\": \"In\",\n   \"Values\": [\n    \"b\"\n   ]\n  }\n ],\n \"MatchFields\": null\n}";
        assert_eq!(pretty("NodeSelectorTerm", &term), expected);
        assert_eq!(compact_list("Toleration", &[]), "null");
        let owner = value!({"uid": "u", "apiVersion": "v1", "controller": true, "kind": "Pod", "name": "p"});
        let template = value!({"metadata": {"ownerReferences": [(owner)]}});
        let shown = compact("ResourceClaimTemplateSpec", &template);
        let expected = r#"{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}],"#;
        assert!(shown.starts_with(expected), "{shown}");
    }
}
