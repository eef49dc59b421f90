//! Validation of ingresses: routes, backends and class.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::networking::ingressclasses::validate::validate_typed_reference;
use crate::prepare::same;
use crate::validation::ip;
use crate::validation::text::{complain, list, member, optional, port_number, required, text};

const SPEC: Field<'static> = Field::new("spec");
/// The addresses of the ingress.
const POINTS: &[&str] = &["status", "loadBalancer", "ingress"];
const POINTS_AT: Field<'static> = Field::new("status").child("loadBalancer").child("ingress");
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Invalid values that a stored object may keep.
#[derive(Clone, Copy, Default)]
struct Leeway {
    secret_names: bool,
    wildcard_rules: bool,
}

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), Leeway::default(), errors);
    let class = object.str_at(&["spec", "ingressClassName"]);
    if let (Some(annotated), Some(class)) = (annotated_class(object), class)
        && annotated != class
    {
        let at = Field::new("annotations");
        let why = "must match `ingressClassName` when both are specified";
        errors.invalid(at.child(CLASS_ANNOTATION), &Value::from(annotated), why);
    }
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    let refused = |secret: &str| !secret.is_empty() && !names::dns1123_subdomain(secret).is_empty();
    let old = spec(old);
    let leeway = Leeway {
        secret_names: list(old, "tls").iter().any(|tls| refused(text(tls, "secretName"))),
        wildcard_rules: list(old, "rules").iter().any(is_invalid_wildcard_rule),
    };
    validate_spec(spec(object), leeway, errors);
}

pub(super) fn subresource(name: &str, object: &Value, old: &Value, errors: &mut ErrorList) {
    if name != "status" {
        return;
    }
    let known: HashSet<&str> = old.items_at(POINTS).iter().map(|point| text(point, "ip")).collect();
    for (i, point) in object.items_at(POINTS).iter().enumerate() {
        let (address, hostname, at) = (text(point, "ip"), text(point, "hostname"), POINTS_AT.index(i));
        if !address.is_empty() && !known.contains(address) {
            ip::legacy_ip(address, &at.child("ip"), errors);
        }
        optional(hostname, names::dns1123_subdomain, &at.child("hostname"), errors);
        refuse_address(hostname, &at.child("hostname"), errors);
    }
}

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn annotated_class(object: &Value) -> Option<&str> {
    object.str_at(&["metadata", "annotations", CLASS_ANNOTATION])
}

fn is_invalid_wildcard_rule(rule: &Value) -> bool {
    let mut errors = ErrorList::new();
    if text(rule, "host").contains('*') {
        validate_paths(rule, &Field::ROOT, &mut errors);
    }
    !errors.is_empty()
}

fn validate_spec(spec: &Value, leeway: Leeway, errors: &mut ErrorList) {
    let (rules, backend) = (list(spec, "rules"), member(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        errors.invalid(SPEC, &Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = backend {
        validate_backend(backend, &SPEC.child("defaultBackend"), errors);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(rule, leeway, &SPEC.child("rules").index(i), errors);
    }
    for (i, tls) in list(spec, "tls").iter().enumerate() {
        validate_tls(tls, leeway, &SPEC.child("tls").index(i), errors);
    }
    if let Some(class) = member(spec, "ingressClassName").and_then(Value::as_str) {
        complain(&SPEC.child("ingressClassName"), class, names::dns1123_subdomain(class), errors);
    }
}

fn validate_rule(rule: &Value, leeway: Leeway, at: &Field<'_>, errors: &mut ErrorList) {
    let host = text(rule, "host");
    if !host.is_empty() {
        refuse_address(host, &at.child("host"), errors);
        complain(&at.child("host"), host, host_complaints(host), errors);
    }
    if !(leeway.wildcard_rules && host.contains('*')) {
        validate_paths(rule, at, errors);
    }
}

fn refuse_address(host: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let may_be_address = host.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':'));
    if may_be_address && ip::parse_sloppy(host).is_some() {
        errors.invalid(at, &Value::from(host), "must be a DNS name, not an IP address");
    }
}

fn host_complaints(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn validate_paths(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(http) = member(rule, "http") else { return };
    let at = at.child("http");
    let at = at.child("paths");
    let paths = list(http, "paths");
    if paths.is_empty() {
        errors.required(at, "");
    }
    for (i, path) in paths.iter().enumerate() {
        validate_path(path, &at.index(i), errors);
    }
}

fn validate_path(path: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(kind) = member(path, "pathType") else {
        errors.required(at.child("pathType"), "pathType must be specified");
        return;
    };
    let route = text(path, "path");
    let mut refuse = |why: String| errors.invalid(at.child("path"), &Value::from(route), why);
    match kind.as_str().unwrap_or_default() {
        "Exact" | "Prefix" => {
            if !route.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| route.contains(part)) {
                refuse(format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| route.ends_with(end)) {
                refuse(format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !route.is_empty() && !route.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
        }
        _ => {
            let known = &["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(at.child("pathType"), kind, known);
        }
    }
    validate_backend(path.get("backend").unwrap_or(&Value::Null), &at.child("backend"), errors);
}

fn validate_backend(backend: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let empty = Value::from("");
    match (member(backend, "resource"), member(backend, "service")) {
        (Some(_), Some(_)) => errors.invalid(at, &empty, "cannot set both resource and service backends"),
        (Some(resource), None) => validate_typed_reference(resource, &at.child("resource"), errors),
        (None, Some(service)) => validate_service(service, at, errors),
        (None, None) => errors.invalid(at, &empty, "resource or service backend is required"),
    }
}

fn validate_service(service: &Value, backend: &Field<'_>, errors: &mut ErrorList) {
    let at = backend.child("service");
    required(text(service, "name"), names::dns1123_label, &at.child("name"), errors);
    let (name, number) = (
        service.str_at(&["port", "name"]).unwrap_or_default(),
        service.int_at(&["port", "number"]).unwrap_or(0),
    );
    let at = at.child("port");
    match (name, number) {
        ("", 0) => errors.required(backend, "port name or number is required"),
        ("", number) => port_number(number, &at.child("number"), errors),
        (name, 0) => complain(&at.child("name"), name, names::port_name(name), errors),
        _ => errors.invalid(backend, &Value::from(""), "cannot set both port name & port number"),
    }
}

fn validate_tls(tls: &Value, leeway: Leeway, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, host) in list(tls, "hosts").iter().enumerate() {
        let host = host.as_str().unwrap_or_default();
        complain(&at.child("hosts").index(i), host, host_complaints(host), errors);
    }
    if !leeway.secret_names {
        optional(text(tls, "secretName"), names::dns1123_subdomain, &at.child("secretName"), errors);
    }
}

/// Warnings about the deprecated class annotation, and about addresses that are not canonical.
pub(super) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    match old {
        None => {
            if annotated_class(object).is_some() && member(spec(object), "ingressClassName").is_none() {
                warnings.push(format!(
                    "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        Some(old) if !same(object, old, &["status"]) => {
            let points = object.items_at(POINTS).iter().enumerate();
            let warning = |(i, point)| ip::ip_warning(text(point, "ip"), &POINTS_AT.index(i));
            warnings.extend(points.filter_map(warning));
        }
        Some(_) => {}
    }
    warnings
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn old_ways_are_warned_about() {
        let annotated = value!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}}});
        let warning = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
        assert_eq!(warnings(&annotated, None), [warning]);
        assert!(warnings(&annotated, Some(&annotated)).is_empty());
        let mut both = annotated.clone();
        both.set(&["spec", "ingressClassName"], "nginx");
        assert!(warnings(&both, None).is_empty());
        let reached =
            value!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"ip": "FE80::1"}]}}});
        assert_eq!(
            warnings(&reached, Some(&annotated)),
            [
                "status.loadBalancer.ingress[1]: IPv6 address \"FE80::1\" should be in RFC 5952 canonical format (\"fe80::1\")"
            ]
        );
    }

    #[test]
    fn stored_values_are_accepted_again() {
        let old = value!({"spec": {
            "tls": [{"secretName": "A b"}], "rules": [{"host": "*.example.com", "http": {"paths": []}}],
        }});
        let complaints = |old: &Value| {
            let mut errors = ErrorList::new();
            update(
                &value!({"spec": {
                    "tls": [{"secretName": "A b"}], "rules": [{"host": "*.example.com", "http": {"paths": []}}],
                }}),
                old,
                &mut errors,
            );
            errors.0.len()
        };
        assert_eq!(complaints(&old), 0);
        assert_eq!(complaints(&Value::Null), 2);
    }
}
