//! Objects that move from one store to another: the same object, with the revision that the other store gives it.

use corten_api::{Value, encoded, json, meta};
use corten_store::NewValue;

use super::range_allocation;

/// The value of an object or record for another store. An error if it is neither.
pub fn rewritten(key: &str, value: &[u8]) -> Result<NewValue, String> {
    if range_allocation::is_key(key) {
        return Ok(NewValue::from(value.to_vec()));
    }
    let tree = without_revision(value)?;
    let text = encoded::encode(&tree, meta::kind(&tree), meta::api_version(&tree));
    Ok(NewValue { bytes: text.bytes, revision_at: Some(text.revision_at), note: None })
}

/// An object without its resourceVersion, which differs between stores.
fn without_revision(value: &[u8]) -> Result<Value, String> {
    let mut tree = json::parse(value).map_err(|error| error.to_string())?;
    if meta::kind(&tree).is_empty() || meta::api_version(&tree).is_empty() {
        return Err("it has no kind or apiVersion".to_owned());
    }
    tree.remove(&["metadata", "resourceVersion"]);
    Ok(tree)
}

/// True if two stores have the same object or record under a key.
pub fn is_same_object(key: &str, a: &[u8], b: &[u8]) -> bool {
    let comparable = |value: &[u8]| match range_allocation::is_key(key) {
        true => json::parse(value).map_err(|error| error.to_string()),
        false => without_revision(value),
    };
    match (comparable(a), comparable(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_gets_the_revision_of_its_new_store() {
        let text = br#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w","resourceVersion":"17"},"a":[1]}"#;
        let value = rewritten("/registry/example.com/widgets/n/w", text).unwrap();
        let mut moved = value.bytes.clone();
        moved.splice(value.revision_at.unwrap()..value.revision_at.unwrap(), *b"3");
        assert_eq!(json::parse(&moved).unwrap().str_at(&["metadata", "resourceVersion"]), Some("3"));
        assert_eq!(without_revision(&moved), without_revision(text));
        for damaged in [&b"k8s\0"[..], b"{", b"[]", b"{}"] {
            assert!(rewritten("/registry/pods/n/a", damaged).is_err());
        }
    }
}
