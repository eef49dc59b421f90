//! Versions of custom resource definitions and objects of them: compilation, decoding, defaults, validation, rules,
//! columns, selectable fields and scale. Any schema that compiles accepts or refuses any object.
//!
//! An input is one JSON object: a `version` of a definition, an `object` and its previous state `old`.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json};
use corten_customresources::metadata::Malformed;
use corten_customresources::rules::{self, StoredExpressions};
use corten_customresources::{Schema, Version, defaults, typed};
use jiff::Timestamp;

pub(crate) fn check(data: &[u8]) {
    let Ok(input) = json::parse(data) else { return };
    let part = |key: &str| input.get(key).unwrap_or(&Value::Null);
    let Ok(version) = Version::compile(&Value::Null, part("version")) else { return };
    let (mut object, mut old) = (part("object").clone(), part("old").clone());
    if version.decode(&mut object, Malformed::Dropped, Some(&mut Vec::new())).is_err() {
        return;
    }
    let once = object.clone();
    version.decode(&mut object, Malformed::Refused, None).expect("a decoded object decodes again");
    assert_eq!(object, once, "decoding is idempotent");
    let _ = version.decode(&mut old, Malformed::Dropped, None);
    if version.set_defaults(&mut object).is_err() {
        return;
    }
    let mut errors = ErrorList::new();
    version.validate_create(&object, &mut errors);
    version.validate_update(&object, &old, &mut errors);
    version.validate_status_update(&object, &old, &mut errors);
    if let Ok(schema) =
        Schema::compile_unpruned(input.at(&["version", "schema", "openAPIV3Schema"]).unwrap_or(&Value::Null))
    {
        defaults::validate_defaults(&schema, true, &Field::ROOT, &mut errors);
        rules::validate_rules(&schema, &StoredExpressions::default(), false, &Field::ROOT, &mut errors);
    }
    drop((errors.summary(), version.columns.cells(&object, Timestamp::UNIX_EPOCH)));
    drop(version.selectable.values(&object).collect::<Vec<_>>());
    drop(typed::resource_type(&version.schema, "example.com/v1", "Widget", false));
    if let Some(scale) = &version.scale {
        let _ = scale.of(&object);
        let _ = scale.set_replicas(&mut object, 1);
    }
}
