//! Secrets: confidential data for pods. The type is immutable, and so is the data of an
//! immutable one. Some types require certain data.

mod key_pair;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, json};

use crate::core::configmaps::{MOST_BYTES, byte_length, validate_immutable, validate_key};
use crate::defaults::{fill_zero, made};
use crate::prepare::copy;
use crate::rules::{Request, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, age, cells, count, field, name, str_at, text};
use crate::validation::fields::{entries, immutable};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "secrets",
    prefix_on_update: true,
    storage_prefix: "secrets",
    default,
    prepare_update,
    validate_create: validate,
    validate_update,
    warnings: |secret, _| warnings(secret),
    selectable: &[Selectable { label: "type", value: |o| field(o, &["type"]) }],
    columns: &[
        NAME,
        text("Type", "What the data is for.").of("core/v1.Secret", "type"),
        text("Data", "How many entries there are.").of("core/v1.Secret", "data"),
        AGE,
    ],
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

/// `stringData` is stored as bytes in `data`.
fn encode_text(secret: &mut Map) {
    let Some(Value::Object(entries)) = secret.remove("stringData") else { return };
    let data = made(secret, "data");
    for (key, text) in entries {
        data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

/// The type is set once; an update may leave it out.
fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    if str_at(object, &["type"]).is_empty() {
        copy(object, old, &["type"]);
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(object, old, "type", &Field::ROOT, errors);
    validate_immutable(object, old, &["data"], errors);
    validate(object, errors);
}

const DATA: Field<'static> = Field::new("data");

fn validate(object: &Value, errors: &mut ErrorList) {
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        validate_key(key, &DATA, errors);
        size += byte_length(value);
    }
    if size > MOST_BYTES {
        errors.too_long(DATA, MOST_BYTES);
    }
    validate_type(object, errors);
}

/// The data that a type requires.
fn validate_type(object: &Value, errors: &mut ErrorList) {
    let has = |key: &str| object.at(&["data", key]).is_some();
    let mut require = |key: &str| errors.required(DATA.key(key), "");
    match str_at(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if str_at(object, &["metadata", "annotations", ACCOUNT]).is_empty() {
                let metadata = Field::new("metadata");
                errors.required(metadata.child("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(object, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_json(object, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            ["username", "password"].into_iter().for_each(require);
        }
        "kubernetes.io/ssh-auth" if str_at(object, &["data", "ssh-privatekey"]).is_empty() => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).for_each(require);
        }
        _ => {}
    }
}

/// An invalid key pair is accepted, with a warning.
fn warnings(secret: &Value) -> Vec<String> {
    if str_at(secret, &["type"]) != "kubernetes.io/tls" {
        return Vec::new();
    }
    let pem = |key: &str| {
        let bytes = STANDARD.decode(str_at(secret, &["data", key])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    key_pair::complaint(&pem("tls.crt"), &pem("tls.key")).into_iter().collect()
}

/// Checks that an entry is a JSON object; its value is never printed.
fn validate_json(object: &Value, key: &str, errors: &mut ErrorList) {
    let Some(content) = object.str_at(&["data", key]) else {
        errors.required(DATA.key(key), "");
        return;
    };
    let content = STANDARD.decode(content).unwrap_or_default();
    let why = match json::parse(&content) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.go_kind()
            )
        }
        Err(error) => error.to_string(),
    };
    errors.invalid(DATA.key(key), &Value::from("<secret contents redacted>"), why);
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
        assert_eq!(errors.0[1].field, "data[tls.crt]");
    }
}
