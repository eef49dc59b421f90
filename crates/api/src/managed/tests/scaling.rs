//! Owners through the `scale` subresource.

use super::*;

const REPLICAS: &[&str] = &["spec", "replicas"];

fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: &str) -> String {
    let subresource =
        if subresource.is_empty() { String::new() } else { format!(r#","subresource":"{subresource}""#) };
    format!(
        r#"{{"apiVersion":"{version}","fieldsType":"FieldsV1","fieldsV1":{fields},"manager":"{manager}","operation":"{operation}"{subresource}}}"#
    )
}

fn list(entries: &[String]) -> Value {
    let object = format!(r#"{{"metadata":{{"managedFields":[{}]}}}}"#, entries.join(","));
    json::parse(object.as_bytes()).unwrap().remove(&["metadata", "managedFields"]).unwrap()
}

const BOTH: &str = r#"{"f:spec":{"f:replicas":{},"f:selector":{}}}"#;
const ONLY_REPLICAS: &str = r#"{"f:spec":{"f:replicas":{}}}"#;
const NO_REPLICAS: &str = r#"{"f:spec":{"f:selector":{}}}"#;

#[test]
fn the_owner_of_the_replicas_owns_the_scale() {
    let parent =
        list(&[entry("a", "Apply", "apps/v1", "", BOTH), entry("b", "Update", "apps/v1", "", NO_REPLICAS)]);
    let expected = list(&[entry("a", "Apply", "autoscaling/v1", "", ONLY_REPLICAS)]);
    assert_eq!(to_scale(Some(&parent), REPLICAS), Some(expected));
    assert_eq!(to_scale(None, REPLICAS), None);
}

#[test]
fn scaling_takes_the_replicas() {
    for operation in ["Apply", "Update"] {
        for manager in ["a", "z"] {
            let parent = list(&[entry("a", "Apply", "apps/v1", "", BOTH)]);
            let scaled = list(&[entry(manager, operation, "autoscaling/v1", "scale", ONLY_REPLICAS)]);
            let expected = list(&[
                entry("a", "Apply", "apps/v1", "", NO_REPLICAS),
                entry(manager, operation, "apps/v1", "scale", ONLY_REPLICAS),
            ]);
            assert_eq!(from_scale(Some(&parent), Some(&scaled), "apps/v1", REPLICAS), Some(expected));
        }
    }
    // Not taken: the entry is as it was.
    let parent = list(&[entry("a", "Apply", "apps/v1", "", BOTH)]);
    let scaled = to_scale(Some(&parent), REPLICAS);
    assert_eq!(from_scale(Some(&parent), scaled.as_ref(), "apps/v1", REPLICAS), Some(parent));
}
