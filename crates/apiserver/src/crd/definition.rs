//! The part of a CustomResourceDefinition that serving needs without its schemas.
//!
//! Pure. Schemas stay in the definition's text, from which a version is compiled when it is used.

use std::cmp::Ordering;

use bytes::Bytes;
use corten_api::{Str, Value, json, meta};
use corten_registry as registry;
use sha2::{Digest, Sha256};

/// A stored definition, without its schemas.
#[derive(Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) uid: Str,
    /// The definition itself, schemas included.
    pub(super) text: Bytes,
    /// Differs whenever the specification or the accepted names differ.
    pub(super) digest: [u8; 32],
    pub(super) group: Str,
    pub(super) namespaced: bool,
    pub(super) names: Names,
    /// In the order of the specification.
    pub(super) versions: Vec<VersionInfo>,
    pub(super) preserve_unknown_fields: bool,
    pub(super) conversion: Conversion,
    /// True if requests are served: the names were accepted.
    pub(super) is_served: bool,
    /// True while the objects are being removed: none may be created.
    pub(super) is_terminating: bool,
}

/// The accepted names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) plural: Str,
    pub(super) singular: Str,
    pub(super) kind: Str,
    pub(super) list_kind: Str,
    pub(super) short_names: Vec<Str>,
    pub(super) categories: Vec<Str>,
}

/// One version, without its schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VersionInfo {
    pub(super) name: Str,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecation_warning: Option<Str>,
    pub(super) has_status: bool,
    pub(super) has_scale: bool,
    pub(super) selectable_fields: Vec<Str>,
}

/// The conversion between versions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Conversion {
    /// Only `apiVersion` changes.
    None,
    Webhook(Box<WebhookConversion>),
}

/// A conversion webhook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WebhookConversion {
    /// `spec.conversion.webhook.clientConfig`.
    pub(super) client_config: Value,
    pub(super) review_versions: Vec<Str>,
}

impl Definition {
    /// Reads a stored definition; `None` if it cannot be served at all.
    pub(super) fn parse(text: &Bytes) -> Option<Definition> {
        let object = json::parse(text).ok()?;
        let spec = object.get("spec")?;
        let mut definition = Definition {
            uid: meta::uid(&object).into(),
            text: text.clone(),
            digest: digest(&object),
            group: text_at(spec, &["group"]),
            namespaced: spec.str_at(&["scope"]) == Some("Namespaced"),
            names: names(object.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null)),
            versions: spec.items_at(&["versions"]).iter().map(version).collect(),
            preserve_unknown_fields: spec.bool_at(&["preserveUnknownFields"]).unwrap_or(false),
            conversion: conversion(spec),
            is_served: is_true(&object, "NamesAccepted") || is_true(&object, "Established"),
            is_terminating: meta::is_deleting(&object) || is_true(&object, "Terminating"),
        };
        definition.set_deprecation_warnings(spec);
        definition.is_served &= definition.is_complete() && definition.owns_its_objects(meta::name(&object));
        Some(definition)
    }

    fn is_complete(&self) -> bool {
        let names = [&self.names.plural, &self.names.singular, &self.names.kind, &self.names.list_kind];
        names.iter().all(|name| !name.is_empty()) && self.storage_version().is_some()
    }

    /// True if the place of the objects in the store is this definition's own. Validation sees to that, but a definition
    /// whose place was another resource's would show that one's objects, so it is checked where they are served.
    fn owns_its_objects(&self, name: &str) -> bool {
        let place = format!("{}/{}", self.group, self.names.plural);
        self.group.contains('.')
            && !self.names.plural.contains(['/', '.'])
            && !self.group.contains('/')
            && name == self.qualified_name()
            && registry::all().iter().all(|rules| rules.storage_prefix != place)
    }

    pub(super) fn storage_version(&self) -> Option<usize> {
        self.versions.iter().position(|version| version.storage)
    }

    /// `widgets.example.com`.
    pub(super) fn qualified_name(&self) -> String {
        format!("{}.{}", self.names.plural, self.group)
    }

    fn set_deprecation_warnings(&mut self, spec: &Value) {
        let mut current: Vec<&str> = Vec::new();
        for (info, version) in self.versions.iter().zip(spec.items_at(&["versions"])) {
            if info.served && version.bool_at(&["deprecated"]) != Some(true) {
                current.push(&info.name);
            }
        }
        current.sort_by(|a, b| compare_versions(b, a));
        let current: Vec<Str> = current.into_iter().map(Str::from).collect();
        let kind = spec.str_at(&["names", "kind"]).unwrap_or_default();
        for (info, version) in self.versions.iter_mut().zip(spec.items_at(&["versions"])) {
            if version.bool_at(&["deprecated"]) != Some(true) {
                continue;
            }
            info.deprecation_warning = Some(match version.str_at(&["deprecationWarning"]) {
                Some(warning) => warning.into(),
                None => default_warning(&self.group, kind, &info.name, &current).into(),
            });
        }
    }
}

fn default_warning(group: &str, kind: &str, version: &str, current: &[Str]) -> String {
    let newer = current.iter().find(|other| compare_versions(version, other) == Ordering::Less);
    let replacement = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    format!("{group}/{version} {kind} is deprecated{replacement}")
}

fn digest(object: &Value) -> [u8; 32] {
    let mut bytes = Vec::new();
    for path in [&["metadata", "uid"][..], &["spec"], &["status", "acceptedNames"]] {
        json::write(&mut bytes, object.at(path).unwrap_or(&Value::Null));
    }
    Sha256::digest(&bytes).into()
}

fn text_at(value: &Value, path: &[&str]) -> Str {
    value.str_at(path).unwrap_or_default().into()
}

fn texts_at(value: &Value, path: &[&str]) -> Vec<Str> {
    value.items_at(path).iter().filter_map(Value::as_str).map(Str::from).collect()
}

fn names(names: &Value) -> Names {
    Names {
        plural: text_at(names, &["plural"]),
        singular: text_at(names, &["singular"]),
        kind: text_at(names, &["kind"]),
        list_kind: text_at(names, &["listKind"]),
        short_names: texts_at(names, &["shortNames"]),
        categories: texts_at(names, &["categories"]),
    }
}

fn version(version: &Value) -> VersionInfo {
    let has = |subresource: &str| version.at(&["subresources", subresource]).is_some_and(|v| !v.is_null());
    let fields = version.items_at(&["selectableFields"]).iter();
    VersionInfo {
        name: text_at(version, &["name"]),
        served: version.bool_at(&["served"]).unwrap_or(false),
        storage: version.bool_at(&["storage"]).unwrap_or(false),
        deprecation_warning: None,
        has_status: has("status"),
        has_scale: has("scale"),
        selectable_fields: fields.map(|field| text_at(field, &["jsonPath"])).collect(),
    }
}

fn conversion(spec: &Value) -> Conversion {
    match spec.str_at(&["conversion", "strategy"]) {
        Some("Webhook") => Conversion::Webhook(Box::new(WebhookConversion {
            client_config: spec.at(&["conversion", "webhook", "clientConfig"]).cloned().unwrap_or_default(),
            review_versions: texts_at(spec, &["conversion", "webhook", "conversionReviewVersions"]),
        })),
        _ => Conversion::None,
    }
}

/// True if a condition of a definition is true.
pub(super) fn is_true(definition: &Value, kind: &str) -> bool {
    let mut conditions = definition.items_at(&["status", "conditions"]).iter();
    conditions.any(|c| c.str_at(&["type"]) == Some(kind) && c.str_at(&["status"]) == Some("True"))
}

/// Kubernetes' order of versions: GA above beta above alpha, each by number; other names below, in reverse alphabetical
/// order. The greater one has priority.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability, major and minor number of `v1`, `v2beta3`.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = number(&rest[..digits])?;
    let (stability, minor) = match &rest[digits..] {
        "" => return Some((2, major, 0)),
        rest => match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
            (Some(minor), _) => (0, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        },
    };
    Some((stability, major, number(minor)?))
}

/// A number without a leading zero.
fn number(digits: &str) -> Option<u64> {
    if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_kubernetes_order() {
        let mut versions = [
            "foo10",
            "v10beta3",
            "v1",
            "v11alpha2",
            "foo1",
            "v3beta1",
            "v10",
            "v2",
            "v12alpha1",
            "v11beta2",
            "v01",
        ];
        versions.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "foo1",
                "foo10",
                "v01"
            ]
        );
    }

    fn parse(spec: &str) -> Definition {
        let text = format!(
            r#"{{"metadata":{{"uid":"u","name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced","names":{{"kind":"Widget"}},{spec}}},
            "status":{{"acceptedNames":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
            "conditions":[{{"type":"NamesAccepted","status":"True"}}]}}}}"#
        );
        Definition::parse(&text.into()).unwrap()
    }

    #[test]
    fn deprecated_versions_name_their_replacement() {
        let definition = parse(
            r#""versions":[{"name":"v1alpha1","served":true,"deprecated":true},{"name":"v1beta1","served":true,"deprecated":true,
            "deprecationWarning":"gone soon"},{"name":"v1","served":true,"storage":true},{"name":"v2","served":false}]"#,
        );
        let warnings: Vec<_> = definition.versions.iter().map(|v| v.deprecation_warning.as_deref()).collect();
        let first = "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget";
        assert_eq!(warnings, [Some(first), Some("gone soon"), None, None]);
        assert!(definition.is_served && definition.storage_version() == Some(2));
    }

    #[test]
    fn only_the_owner_of_a_place_in_the_store_is_served() {
        let is_served = |name: &str, group: &str, plural: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"group":"{group}","versions":[{{"name":"v1","served":true,"storage":true}}]}},
                "status":{{"acceptedNames":{{"plural":"{plural}","singular":"s","kind":"K","listKind":"L"}},
                "conditions":[{{"type":"Established","status":"True"}}]}}}}"#
            );
            Definition::parse(&text.into()).unwrap().is_served
        };
        assert!(is_served("widgets.example.com", "example.com", "widgets"));
        for (name, group, plural) in [
            ("widgets.example.com", "secrets", "kube-system"),
            ("widgets.example.com", "example.com", "gadgets"),
            ("kube-system.secrets", "secrets", "kube-system"),
            (
                "customresourcedefinitions.apiextensions.k8s.io",
                "apiextensions.k8s.io",
                "customresourcedefinitions",
            ),
            ("apiservices.apiregistration.k8s.io", "apiregistration.k8s.io", "apiservices"),
            ("a/b.example.com", "example.com", "a/b"),
        ] {
            assert!(!is_served(name, group, plural), "{name} {group} {plural}");
        }
    }

    #[test]
    fn the_digest_ignores_conditions() {
        let text = |status: &str, scope: &str| {
            Bytes::from(format!(
                r#"{{"spec":{{"group":"g","scope":"{scope}"}},"status":{{"conditions":[{status}]}}}}"#
            ))
        };
        let digest = |status: &str, scope: &str| Definition::parse(&text(status, scope)).unwrap().digest;
        assert_eq!(digest("", "Cluster"), digest(r#"{"type":"Established"}"#, "Cluster"));
        assert_ne!(digest("", "Cluster"), digest("", "Namespaced"));
    }
}
