//! A message as several types: reading, conforming, writing. What was written reads back the same.

use super::conformed::conformed_twice;
use corten_api::{json, protobuf, schema};

const TYPES: &[(&str, &str)] = &[
    ("core/v1", "Pod"),
    ("core/v1", "Secret"),
    ("meta/v1", "WatchEvent"),
    ("apps/v1", "ControllerRevision"),
    ("authorization/v1", "SubjectAccessReview"),
    ("apiextensions/v1", "CustomResourceDefinition"),
];

pub(crate) fn check(data: &[u8]) {
    for (package, name) in TYPES {
        let schema = schema::lookup(package, name).expect("the table has the type");
        let Ok(mut value) = protobuf::decode(&schema, data) else { continue };
        if !conformed_twice(&mut value, package, name) {
            continue;
        }
        let mut written = Vec::new();
        protobuf::encode(&schema, &value, &mut written).expect("what conforms is written");
        let mut read = protobuf::decode(&schema, &written).expect("what was written is read");
        conformed_twice(&mut read, package, name);
        // As JSON: there a whole float and an integer are the same.
        assert_eq!(json::write_to_string(&read), json::write_to_string(&value));
    }
}
