//! Service accounts: the identities of pods.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "serviceaccounts",
    prefix_on_update: true,
    storage_prefix: "serviceaccounts",
    prepare_create: |object, _| clean_secrets(object),
    prepare_update: |object, _, _| clean_secrets(object),
    warnings,
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}

/// Only the names of listed secrets are kept.
fn clean_secrets(object: &mut Value) {
    let secrets = object.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|key, _| key == "name");
        }
    }
}

/// Warns about the deprecated annotation when it is newly set.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    let annotated = |object: &Value| object.at(&["metadata", "annotations", ANNOTATION]).is_some();
    if !annotated(object) || old.is_some_and(annotated) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}
