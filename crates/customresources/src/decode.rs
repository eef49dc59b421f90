//! Decoding of a custom resource: what upstream's decoders do to built-in types by decoding into Go structs.
//!
//! In order: `metadata` is decoded, unknown fields are pruned, nulls without a default are removed, and the metadata
//! of embedded resources is decoded. Defaults are set afterwards (`defaults`).

use corten_api::{Str, Value, go};

use crate::metadata::{self, Malformed};
use crate::schema::Schema;
use crate::{defaults, prune};

/// The steps of decoding.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub malformed: Malformed,
    /// `spec.preserveUnknownFields` of the definition: nothing but metadata is pruned.
    pub preserve_unknown_fields: bool,
    /// Nulls of fields that are neither nullable nor have a default stay, for validation to refuse them.
    pub keep_nulls: bool,
}

impl Options {
    /// For the body of a request.
    pub const REQUEST: Options =
        Options { malformed: Malformed::Refused, preserve_unknown_fields: false, keep_nulls: false };
    /// For a stored object.
    pub const STORED: Options = Options { malformed: Malformed::Dropped, ..Options::REQUEST };
}

/// Decodes a custom resource in place. `unknown` receives the paths of removed unknown fields, in upstream's order.
/// The error is upstream's text.
pub fn decode(
    object: &mut Value,
    schema: &Schema,
    options: Options,
    mut unknown: Option<&mut Vec<String>>,
) -> Result<(), String> {
    for key in ["kind", "apiVersion"] {
        if let Some(value) = object.get(key).filter(|value| value.as_str().is_none()) {
            return Err(wrong_type(key, value));
        }
    }
    let metadata = object.remove(&["metadata"]);
    let metadata =
        metadata.map(|metadata| decode_metadata(metadata, options.malformed, unknown.as_deref_mut()));
    let metadata = metadata.transpose()?;
    metadata::expand_raw(object);
    if !options.preserve_unknown_fields {
        prune::prune(object, schema, unknown.as_deref_mut());
        if !options.keep_nulls {
            defaults::prune_nulls(object, schema);
        }
    }
    metadata::coerce(object, schema, options.malformed, unknown)?;
    metadata::expand_raw(object);
    if let (Some(metadata), Some(map)) = (metadata, object.as_object_mut()) {
        map.insert(Str::new_static("metadata"), metadata);
    }
    Ok(())
}

fn decode_metadata(
    mut metadata: Value,
    malformed: Malformed,
    unknown: Option<&mut Vec<String>>,
) -> Result<Value, String> {
    let mut found = Vec::new();
    metadata::decode_object_meta(&mut metadata, malformed, &mut found)?;
    if let Some(unknown) = unknown {
        unknown.extend(found.iter().map(|path| format!("metadata.{path}")));
    }
    Ok(metadata)
}

/// The error of reading a text that is none.
fn wrong_type(key: &str, value: &Value) -> String {
    let (shown, kind) = (go::plain(value), go::type_name(value));
    format!(".{key} accessor error: {shown} is of the type {kind}, expected string")
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "a":{"type":"string"},"fieldsV1":{"type":"object"}}}}}"#;

    #[track_caller]
    fn check(object: &str, expected: Result<&str, &str>, paths: &[&str]) {
        let schema = Schema::compile(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap();
        let mut value = json::parse(object.as_bytes()).unwrap();
        let mut unknown = Vec::new();
        let result = decode(&mut value, &schema, Options::REQUEST, Some(&mut unknown));
        let result = result.map(|()| json::write_to_string(&value));
        assert_eq!(result.as_deref().map_err(String::as_str), expected);
        assert_eq!(unknown, paths);
    }

    #[test]
    fn unknown_fields_of_metadata_come_first() {
        check(
            r#"{"kind":"K","metadata":{"name":"n","zz":1},"spec":{"a":null,"b":1,"fieldsV1":{"x":1}},"bogus":1}"#,
            Ok(r#"{"kind":"K","metadata":{"name":"n"},"spec":{"fieldsV1":{}}}"#),
            &["metadata.zz", "bogus", "spec.b", "spec.fieldsV1.x"],
        );
    }

    #[test]
    fn nulls_may_be_kept() {
        let schema = Schema::compile(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap();
        let text = r#"{"spec":{"a":null}}"#;
        for (keep_nulls, expected) in [(true, text), (false, r#"{"spec":{}}"#)] {
            let mut value = json::parse(text.as_bytes()).unwrap();
            decode(&mut value, &schema, Options { keep_nulls, ..Options::REQUEST }, None).unwrap();
            assert_eq!(json::write_to_string(&value), expected);
        }
    }

    #[test]
    fn errors() {
        check(r#"{"kind":1}"#, Err(".kind accessor error: 1 is of the type int64, expected string"), &[]);
        check(
            r#"{"metadata":{"name":1}}"#,
            Err("json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
            &[],
        );
    }
}
