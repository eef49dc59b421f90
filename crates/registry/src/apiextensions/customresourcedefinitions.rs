//! Custom resource definitions. `status.storedVersions` lists every version that objects were ever stored in.

mod conversion;
mod openapi;
mod path;
mod schema;
mod shown;
mod structural;
mod validate;
mod versions;
mod warnings;

use corten_api::{Map, Value, value};

use crate::defaults::{child, is_absent, is_zero, made, service_reference};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, Request, RowContext, Rules};
use crate::table::{CREATED_AT, NAME, boolean, cells, created_at, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    storage_prefix: "apiextensions.k8s.io/customresourcedefinitions",
    qualified_finalizers: false,
    generation: Generation::SPEC,
    default,
    prepare_create,
    prepare_update,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::create,
    validate_update: validate::update,
    validate_subresource: validate::subresource,
    warnings: warnings::warnings,
    unconditional_update: false,
    status_table: false,
    columns: &[
        NAME,
        text("Scope", "Cluster/Namespaced"),
        text("Versions", "Served versions"),
        CREATED_AT,
        text("Group", "API group").wide(),
        text("Kind", "CustomResource kind").wide(),
        text("ShortNames", "Short names").wide(),
        boolean("Established", "Established status").wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(crd: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let served = crd.items_at(&["spec", "versions"]).iter().filter(|v| flag(v, "served"));
    let label = |version: &Value| {
        let mark = if flag(version, "storage") { "(storage)" } else { "" };
        format!("{}{mark}", str_at(version, &["name"]))
    };
    let mut versions: Vec<String> = served.map(label).collect();
    versions.sort();
    let short_names = crd.items_at(&["spec", "names", "shortNames"]).iter().filter_map(Value::as_str);
    let is_established = |condition: &Value| {
        str_at(condition, &["type"]) == "Established" && str_at(condition, &["status"]) == "True"
    };
    cells![
        name(crd),
        str_at(crd, &["spec", "scope"]),
        versions.join(","),
        created_at(crd),
        str_at(crd, &["spec", "group"]),
        str_at(crd, &["spec", "names", "kind"]),
        short_names.collect::<Vec<_>>().join(","),
        crd.items_at(&["status", "conditions"]).iter().any(is_established),
    ]
}

fn flag(version: &Value, key: &str) -> bool {
    version.bool_at(&[key]).unwrap_or_default()
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    names(made(spec, "names"));
    if is_absent(spec, "conversion") {
        spec.insert("conversion", value!({"strategy": "None"}));
    }
    let webhook = child(spec, "conversion").and_then(|conversion| child(conversion, "webhook"));
    if let Some(client) = webhook.and_then(|webhook| child(webhook, "clientConfig")) {
        service_reference(client);
    }
    stored_versions(object);
}

fn names(names: &mut Map) {
    let Some(Value::String(kind)) = names.get("kind").filter(|_| !is_zero(names, "kind")).cloned() else {
        return;
    };
    if is_zero(names, "singular") {
        names.insert("singular", kind.to_lowercase());
    }
    if is_zero(names, "listKind") {
        names.insert("listKind", format!("{kind}List"));
    }
}

/// The stored version is in the list from the start.
fn stored_versions(object: &mut Map) {
    let stored = object.get("status").map_or(&[][..], |status| status.items_at(&["storedVersions"]));
    if !stored.is_empty() {
        return;
    }
    let versions = object.get("spec").map_or(&[][..], |spec| spec.items_at(&["versions"]));
    let storage = versions.iter().find(|version| version.bool_at(&["storage"]) == Some(true));
    if let Some(name) = storage.map(|version| Value::from(version.str_at(&["name"]).unwrap_or_default())) {
        made(object, "status").insert("storedVersions", vec![name]);
    }
}

fn prepare_create(object: &mut Value, request: &Request<'_>) {
    drop_status(object, request);
    remember_storage_version(object);
}

fn prepare_update(object: &mut Value, old: &Value, request: &Request<'_>) {
    keep_status(object, old, request);
    remember_storage_version(object);
}

fn remember_storage_version(object: &mut Value) {
    let versions = object.items_at(&["spec", "versions"]);
    let Some(version) = versions.iter().find(|v| v.bool_at(&["storage"]) == Some(true)) else { return };
    let Some(version) = version.get("name").cloned() else { return };
    let mut stored = object.items_at(&["status", "storedVersions"]).to_vec();
    if !stored.contains(&version) {
        stored.push(version);
        object.set(&["status", "storedVersions"], stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_versions_pile_up() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let mut old =
            value!({"metadata": {"name": "c"}, "spec": {"versions": [{"name": "v1", "storage": true}]}});
        RULES.prepare_for_create(&mut old, &request);
        assert_eq!(old.at(&["status", "storedVersions"]), Some(&value!(["v1"])));
        let mut new = old.clone();
        new.set(
            &["spec", "versions"],
            value!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]),
        );
        RULES.prepare_for_update("", &mut new, &old, &request);
        assert_eq!(new.at(&["status", "storedVersions"]), Some(&value!(["v1", "v2"])));
        assert_eq!(new.int_at(&["metadata", "generation"]), Some(2));
    }
}
