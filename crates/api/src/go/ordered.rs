//! JSON with the members of objects in the order of upstream's Go types, which messages show.
//!
//! A JSON patch decodes only the objects on the way to the values that it changes and encodes those with sorted members;
//! everything else keeps the order of the Go type. Lists of a merge patch are sorted throughout.

use std::collections::HashSet;

use crate::json;
use crate::schema::{Kind, Struct};
use crate::value::{Map, Value};

/// The paths of the objects and lists that a patch decodes. The object itself is always one of them.
#[derive(Debug, Clone, Default)]
pub struct Decoded {
    on_the_way: HashSet<Vec<String>>,
    /// The lists that come from the patch.
    replaced: HashSet<Vec<String>>,
}

impl Decoded {
    /// The objects on the way to the targets of a JSON patch.
    pub fn by_json_patch(patch: &Value) -> Decoded {
        let mut decoded = Decoded::default();
        for operation in patch.as_array().unwrap_or_default() {
            for pointer in ["path", "from"].into_iter().filter_map(|key| operation.str_at(&[key])) {
                let steps = pointer.split('/').skip(1);
                let steps: Vec<String> =
                    steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
                decoded.on_the_way.extend((1..steps.len()).map(|length| steps[..length].to_vec()));
            }
        }
        decoded
    }

    /// The objects that a merge patch merges with.
    pub fn by_merge_patch(patch: &Value) -> Decoded {
        let mut decoded = Decoded::default();
        decoded.add_merged(patch, &mut Vec::new());
        decoded
    }

    fn add_merged(&mut self, patch: &Value, path: &mut Vec<String>) {
        let map = match patch {
            Value::Object(map) => map,
            Value::Array(_) => {
                self.replaced.insert(path.clone());
                return;
            }
            _ => return,
        };
        self.on_the_way.insert(path.clone());
        for (key, value) in map.iter() {
            path.push(key.to_string());
            self.add_merged(value, path);
            path.pop();
        }
    }

    fn has(&self, path: &[String]) -> bool {
        path.is_empty() || self.on_the_way.contains(path)
    }
}

/// A value of a type in the order of the Go type.
pub fn json_of(value: &Value, schema: &Struct) -> String {
    let mut out = String::new();
    write_struct(value, schema, &mut out);
    out
}

/// A list of values of a type, each in the order of the Go type.
pub fn json_of_list(items: &[Value], schema: &Struct) -> String {
    let items: Vec<String> = items.iter().map(|item| json_of(item, schema)).collect();
    format!("[{}]", items.join(","))
}

/// An object after a patch: what the patch decoded has sorted members.
pub fn json_patched(value: &Value, schema: &Struct, decoded: &Decoded) -> String {
    let mut out = String::new();
    write_decoded(value, Some(&Shape::Struct(schema)), decoded, &mut Vec::new(), &mut out);
    out
}

/// The type of a value.
enum Shape<'s> {
    Struct(&'s Struct),
    Kind(&'s Kind),
}

impl<'s> Shape<'s> {
    fn member(&self, key: &str) -> Option<Shape<'s>> {
        match self {
            Shape::Struct(schema) => schema.field(key).map(|field| Shape::Kind(&field.kind)),
            Shape::Kind(Kind::Struct(schema)) => schema.field(key).map(|field| Shape::Kind(&field.kind)),
            Shape::Kind(Kind::Map(item, _)) => Some(Shape::Kind(item)),
            Shape::Kind(_) => None,
        }
    }

    fn item(&self) -> Option<Shape<'s>> {
        match self {
            Shape::Kind(Kind::List(item, _)) => Some(Shape::Kind(item)),
            _ => None,
        }
    }
}

fn write_decoded(
    value: &Value,
    shape: Option<&Shape<'_>>,
    decoded: &Decoded,
    path: &mut Vec<String>,
    out: &mut String,
) {
    match value {
        Value::Object(map) if decoded.has(path) => {
            out.push('{');
            for (i, (key, member)) in map.iter().enumerate() {
                write_key(i, key, out);
                path.push(key.to_string());
                write_decoded(member, shape.and_then(|shape| shape.member(key)).as_ref(), decoded, path, out);
                path.pop();
            }
            out.push('}');
        }
        Value::Array(items) if decoded.has(path) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                path.push(i.to_string());
                write_decoded(item, shape.and_then(Shape::item).as_ref(), decoded, path, out);
                path.pop();
            }
            out.push(']');
        }
        Value::Array(_) if decoded.replaced.contains(path) => out.push_str(&json::write_to_string(value)),
        _ => match shape {
            Some(Shape::Struct(schema)) => write_struct(value, schema, out),
            Some(Shape::Kind(kind)) => write_kind(value, kind, out),
            None => out.push_str(&json::write_to_string(value)),
        },
    }
}

fn write_kind(value: &Value, kind: &Kind, out: &mut String) {
    match (kind, value) {
        (Kind::Struct(schema), _) => write_struct(value, schema, out),
        (Kind::List(item, _), Value::Array(items)) => {
            out.push('[');
            for (i, element) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write_kind(element, item, out);
            }
            out.push(']');
        }
        (Kind::Map(item, _), Value::Object(map)) => {
            out.push('{');
            for (i, (key, element)) in map.iter().enumerate() {
                write_key(i, key, out);
                write_kind(element, item, out);
            }
            out.push('}');
        }
        _ => out.push_str(&json::write_to_string(value)),
    }
}

fn write_struct(value: &Value, schema: &Struct, out: &mut String) {
    let Value::Object(map) = value else { return out.push_str(&json::write_to_string(value)) };
    out.push('{');
    for (i, (key, member)) in in_go_order(map, schema).into_iter().enumerate() {
        write_key(i, key, out);
        match schema.field(key) {
            Some(field) => write_kind(member, &field.kind, out),
            None => out.push_str(&json::write_to_string(member)),
        }
    }
    out.push('}');
}

/// The members that the Go type has in its order, and then all others.
fn in_go_order<'m>(map: &'m Map, schema: &Struct) -> Vec<(&'m str, &'m Value)> {
    let place = |key: &str| {
        let position = schema.position(key)?;
        schema.go_fields.iter().position(|field| field.position == position)
    };
    let mut members: Vec<(&str, &Value)> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
    members.sort_by_key(|(key, _)| place(key).unwrap_or(usize::MAX));
    members
}

fn write_key(i: usize, key: &str, out: &mut String) {
    out.push_str(if i > 0 { "," } else { "" });
    out.push_str(&json::write_to_string(&Value::from(key)));
    out.push(':');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::lookup;
    use crate::value;

    fn pod() -> Value {
        value!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "annotations": {"b": "1", "a": "2"},
                "name": "p",
                "ownerReferences": [{"apiVersion": "v1", "controller": true, "kind": "Node", "name": "n", "uid": "u"}],
                "uid": "u",
            },
            "spec": {"containers": [{"image": "i", "name": "c"}], "nodeName": "n"},
        })
    }

    #[test]
    fn members_have_the_order_of_the_go_type() {
        let schema = lookup("core/v1", "Pod").unwrap();
        let expected = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u","annotations":{"a":"2","b":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","controller":true}]},"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"n"}}"#;
        assert_eq!(json_of(&pod(), &schema), expected);
    }

    #[test]
    fn objects_that_a_patch_decodes_have_sorted_members() {
        let schema = lookup("core/v1", "Pod").unwrap();
        let owners =
            r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","controller":true}]"#;
        let spec = r#""spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"n"}"#;
        let annotations = r#""annotations":{"a":"2","b":"1"}"#;
        for (patch, metadata) in [
            (value!({"kind": "Pod"}), format!(r#"{{"name":"p","uid":"u",{annotations},{owners}}}"#)),
            (
                value!({"metadata": {"name": "p"}}),
                format!(r#"{{{annotations},"name":"p",{owners},"uid":"u"}}"#),
            ),
        ] {
            let expected = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},{spec}}}"#);
            let shown = json_patched(&pod(), &schema, &Decoded::by_merge_patch(&patch));
            assert_eq!(shown, expected);
        }
        let patch = value!({"metadata": {"ownerReferences": [{}]}});
        let shown = json_patched(&pod(), &schema, &Decoded::by_merge_patch(&patch));
        let sorted =
            r#""ownerReferences":[{"apiVersion":"v1","controller":true,"kind":"Node","name":"n","uid":"u"}]"#;
        let metadata = format!(r#"{{{annotations},"name":"p",{sorted},"uid":"u"}}"#);
        assert_eq!(shown, format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},{spec}}}"#));
        let patch = value!([{"op": "add", "path": "/metadata/labels", "value": {}}]);
        let shown = json_patched(&pod(), &schema, &Decoded::by_json_patch(&patch));
        let metadata = format!(r#"{{{annotations},"name":"p",{owners},"uid":"u"}}"#);
        assert_eq!(shown, format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},{spec}}}"#));
    }
}
