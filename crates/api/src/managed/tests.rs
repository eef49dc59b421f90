//! What upstream's tests cover, as tables: each case is a list of requests and the owners they leave.

use super::*;
use crate::conform::{Extent, conform};
use crate::{json, schema};

const NOW: &str = "2026-01-01T00:00:00Z";

#[track_caller]
fn whole(kind: &str, text: &str) -> Value {
    let mut value = json::parse(text.as_bytes()).unwrap();
    let schema = schema_of(kind);
    conform(&mut value, &schema, Extent::Whole, &mut Vec::new()).unwrap();
    value
}

fn schema_of(kind: &str) -> schema::StructRef {
    let (package, name) = kind.rsplit_once('.').unwrap();
    schema::lookup(package, name).unwrap()
}

/// `manager operation version[/subresource]: fields` per entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object.items_at(MANAGED_FIELDS).iter();
    entries
        .map(|e| {
            let text = |key| e.str_at(&[key]).unwrap_or_default();
            let Some(Value::Raw(fields)) = e.get("fieldsV1") else { panic!("{e:?}") };
            let fields = Set::parse(fields).unwrap().paths().join(" ");
            let subresource = text("subresource");
            let slash = if subresource.is_empty() { "" } else { "/" };
            format!(
                "{} {} {}{slash}{subresource}: {fields}",
                text("manager"),
                text("operation"),
                text("apiVersion")
            )
        })
        .collect()
}

#[track_caller]
fn create(kind: &str, text: &str, expected: &str) {
    let schema = schema_of(kind);
    let ctx =
        Context { schema: &schema, api_version: "v1", manager: "m", subresource: "", now: NOW, filter: None };
    let mut new = whole(kind, text);
    update(&ctx, None, &mut new).unwrap();
    let text = json::write_to_string(&new.items_at(MANAGED_FIELDS)[0]);
    assert_eq!(text, expected);
}

#[test]
fn creating_owns_what_was_set() {
    create(
        "core/v1.Pod",
        r#"{"metadata":{"name":"p","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}"#,
        r#"{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}}}},"manager":"m","operation":"Update","time":"2026-01-01T00:00:00Z"}"#,
    );
}
