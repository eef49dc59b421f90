//! Storage versions: the version in which each API server encodes a resource.

use std::collections::HashMap;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, UNSET, age, cells, first_few, name, str_at, text};
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text as text_of};

pub(crate) const RULES: Rules = Rules {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    storage_version: "v1alpha1",
    storage_prefix: "storageversions",
    name: NameRule::Any,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create,
    validate_subresource,
    unconditional_update: false,
    columns: &[
        NAME,
        text("CommonEncodingVersion", "What all servers encode as, if they agree.")
            .of("apiserverinternal/v1alpha1.StorageVersionStatus", "commonEncodingVersion"),
        text("StorageVersions", "What each server encodes as.")
            .of("apiserverinternal/v1alpha1.StorageVersionStatus", "storageVersions"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let server = |v: &Value| format!("{}={}", str_at(v, &["apiServerID"]), str_at(v, &["encodingVersion"]));
    let servers: Vec<String> = object.items_at(&["status", "storageVersions"]).iter().map(server).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    cells![
        name(object),
        object.str_at(&["status", "commonEncodingVersion"]).unwrap_or(UNSET),
        first_few(&servers, 3),
        age(object, context),
    ]
}

const STATUS: Field<'static> = Field::new("status");

fn validate_create(object: &Value, errors: &mut ErrorList) {
    for key in ["generateName", "name"] {
        let name = str_at(object, &["metadata", key]);
        if !name.is_empty() {
            complain(&Field::new("metadata").child(key), name, name_complaints(name), errors);
        }
    }
    validate_status(object.get("status").unwrap_or(&Value::Null), errors);
}

fn validate_subresource(sub: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    if sub == "status" {
        validate_status(object.get("status").unwrap_or(&Value::Null), errors);
    }
}

/// Names are `<group>.<resource>`.
fn name_complaints(name: &str) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let group = names::dns1123_subdomain(group).into_iter().map(|why| format!("the group segment {why}"));
    let resource =
        names::dns1035_label(resource).into_iter().map(|why| format!("the resource segment {why}"));
    group.chain(resource).collect()
}

fn validate_status(status: &Value, errors: &mut ErrorList) {
    let servers = list(status, "storageVersions");
    let at = STATUS.child("storageVersions");
    let repeats = Repeats::of(servers, |item| text_of(item, "apiServerID"));
    for (i, server) in servers.iter().enumerate() {
        let (id, at) = (text_of(server, "apiServerID"), at.index(i));
        if repeats.at(i) {
            errors.duplicate(at.child("apiServerID"), &Value::from(id));
        }
        complain(&at.child("apiServerID"), id, names::dns1123_subdomain(id), errors);
        validate_server(server, &at, errors);
    }
    validate_common_version(status, servers, errors);
    validate_conditions(list(status, "conditions"), errors);
}

/// A server decodes the versions that it encodes and serves.
fn validate_server(server: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (encoding, decodable) = (text_of(server, "encodingVersion"), list(server, "decodableVersions"));
    validate_version(encoding, &at.child("encodingVersion"), errors);
    let has = |version: &str| decodable.iter().any(|known| known.as_str() == Some(version));
    for (i, version) in decodable.iter().enumerate() {
        validate_version(
            version.as_str().unwrap_or_default(),
            &at.child("decodableVersions").index(i),
            errors,
        );
    }
    if !has(encoding) {
        let why = format!("decodableVersions must include encodingVersion {encoding}");
        let shown = if decodable.is_empty() { Value::Null } else { Value::from(decodable.to_vec()) };
        errors.invalid(at.child("decodableVersions"), &shown, why);
    }
    for (i, version) in list(server, "servedVersions").iter().enumerate() {
        let (version, at) = (version.as_str().unwrap_or_default(), at.child("servedVersions"));
        validate_version(version, &at.index(i), errors);
        if !has(version) {
            let known: Vec<&str> = decodable.iter().filter_map(Value::as_str).collect();
            let why = format!(
                "individual served version : {version} must be included in decodableVersions : [{}]",
                known.join(" ")
            );
            errors.invalid(at.index(i), &Value::from(version), why);
        }
    }
}

fn validate_version(version: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let complaints = version_complaints(version);
    if !complaints.is_empty() {
        errors.invalid(at, &Value::from(version), complaints.join(","));
    }
}

/// A version, or a group and a version.
fn version_complaints(api_version: &str) -> Vec<String> {
    let (group, version) = match api_version.split_once('/') {
        None => (None, api_version),
        Some((_, rest)) if rest.contains('/') => {
            return vec![
                "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
                    .to_owned(),
            ];
        }
        Some((group, version)) => (Some(group), version),
    };
    let group = group.map(|group| ("group", group, names::dns1123_subdomain(group)));
    let version = ("version", version, names::dns1035_label(version));
    let parts = group.into_iter().chain([version]);
    let said = |(part, text, complaints): (&str, &str, Vec<String>)| match text {
        "" => vec![format!("{part} part: must be non-empty")],
        _ => complaints.into_iter().map(|why| format!("{part} part: {why}")).collect(),
    };
    parts.flat_map(said).collect()
}

/// The common version is set exactly if all servers encode the same.
fn validate_common_version(status: &Value, servers: &[Value], errors: &mut ErrorList) {
    let first = servers.first().map(|server| text_of(server, "encodingVersion"));
    let common =
        first.filter(|first| servers.iter().all(|server| text_of(server, "encodingVersion") == *first));
    let said = member(status, "commonEncodingVersion");
    let why = match (common, said.and_then(Value::as_str)) {
        (None, None) => return,
        (None, Some(_)) => "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet".to_owned(),
        (Some(common), None) => format!("the common encoding version is {common}"),
        (Some(common), Some(said)) if common != said => format!("the actual common encoding version is {common}"),
        (Some(_), Some(_)) => return,
    };
    errors.invalid(STATUS.child("commonEncodingVersion"), said.unwrap_or(&Value::Null), why);
}

/// Upstream leaves the `conditions` out of their paths.
fn validate_conditions(conditions: &[Value], errors: &mut ErrorList) {
    let mut last = HashMap::new();
    for (i, condition) in conditions.iter().enumerate() {
        let (kind, at) = (text_of(condition, "type"), STATUS.index(i));
        if let Some(j) = last.insert(kind, i) {
            let why = format!("the type of the condition is not unique, it also appears in conditions[{j}]");
            errors.invalid(at.child("type"), &Value::from(kind), why);
        }
        complain(&at.child("type"), kind, names::qualified_name(kind), errors);
        let state = text_of(condition, "status");
        complain(&at.child("status"), state, names::qualified_name(state), errors);
        for key in ["reason", "message"].into_iter().filter(|key| text_of(condition, key).is_empty()) {
            errors.required(at.child(key), "");
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_prefix_of_a_generated_name_is_a_name() {
        let mut errors = ErrorList::new();
        validate_create(&value!({"metadata": {"generateName": "gen-", "name": "gen-fxqmt"}}), &mut errors);
        assert_eq!(
            errors.summary(),
            "[metadata.generateName: Invalid value: \"gen-\": name must be in the form of <group>.<resource>, \
             metadata.name: Invalid value: \"gen-fxqmt\": name must be in the form of <group>.<resource>]"
        );
    }
}
