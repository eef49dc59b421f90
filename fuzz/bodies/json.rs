//! JSON as a pod: parsing, writing, conforming. What was written reads back the same. Numbers that stay text until an object
//! is conformed to its type leave it as numbers of its fields.

use super::conformed::conformed_twice;
use corten_api::json;

pub(crate) fn check(data: &[u8]) {
    let Ok(mut value) = json::parse_reporting(data, Some(&mut Vec::new())) else { return };
    let written = json::write_to_string(&value);
    let again = json::parse(written.as_bytes()).expect("what was written is read");
    assert_eq!(json::write_to_string(&again), written);
    conformed_twice(&mut value, "core/v1", "Pod");
    if let Ok(mut value) = json::parse_literally(data, &mut Vec::new()) {
        conformed_twice(&mut value, "apiextensions/v1", "CustomResourceDefinition");
    }
}
