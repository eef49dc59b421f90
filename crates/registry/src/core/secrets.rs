//! Secrets: data for pods that not everybody may see. The type never changes, nor does the data of an
//! immutable one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corten_api::status::ErrorList;
use corten_api::{Map, Value};

use crate::defaults::{fill_zero, made};
use crate::prepare::{copy, same};
use crate::rules::{Request, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, age, cells, count, field, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "secrets",
    storage_prefix: "secrets",
    default,
    prepare_update,
    validate_update,
    selectable: &[Selectable { label: "type", value: |o| field(o, &["type"]) }],
    columns: &[NAME, text("Type", "What the data is for."), text("Data", "How many entries there are."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["type"]), count(object, &["data"]), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_zero(object, "type", "Opaque");
    encode_text(object);
}

/// What was sent as text is kept as bytes, like the rest.
fn encode_text(secret: &mut Map) {
    let Some(Value::Object(entries)) = secret.remove("stringData") else { return };
    let data = made(secret, "data");
    for (key, text) in entries {
        data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

/// The type is given once; an update need not repeat it.
fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    if str_at(object, &["type"]).is_empty() {
        copy(object, old, &["type"]);
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    if !same(object, old, &["type"]) {
        errors.invalid("type", object.get("type").unwrap_or(&Value::Null), "field is immutable");
    }
    if old.bool_at(&["immutable"]) != Some(true) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if object.bool_at(&["immutable"]) != Some(true) {
        errors.forbidden("immutable", why);
    }
    if !same(object, old, &["data"]) {
        errors.forbidden("data", why);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_type_is_kept_and_immutable() {
        let old = value!({"type": "Opaque", "data": {"a": "MQ=="}});
        let mut new = value!({"data": {"a": "Mg=="}});
        RULES.prepare_for_update(
            "",
            &mut new,
            &old,
            &Request { now: jiff::Timestamp::UNIX_EPOCH, user: None },
        );
        assert_eq!(new.str_at(&["type"]), Some("Opaque"));
        let mut errors = ErrorList::new();
        validate_update(&value!({"type": "kubernetes.io/tls"}), &old, &mut errors);
        assert_eq!(errors.0[0].field, "type");
        assert_eq!(errors.0[0].detail, "field is immutable");
        assert_eq!(errors.0.len(), 1);
    }
}
