//! Validation of services and their updates.
//!
//! Addresses and node ports were already allocated: a missing one stays missing.

use std::collections::HashSet;
use std::net::IpAddr;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, names, set_of};

use super::cluster_ips::{self, is_headless};
use super::{is_balanced, ports, reached_from_outside, service_type, uses_health_check_port};
use crate::prepare::same;
use crate::validation::endpoint::endpoint_ip;
use crate::validation::fields::{any_of, one_of, part};
use crate::validation::ip::{legacy_cidr, legacy_ip, parse_sloppy};
use crate::validation::label_selector::validate_labels;
use crate::validation::number::{given, int};
use crate::validation::text::{complain, list, member, optional, port_number, required, text};

const SPEC: Field<'static> = Field::new("spec");
const METADATA: Field<'static> = Field::new("metadata");
const BALANCED_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn create(service: &Value, errors: &mut ErrorList) {
    if cluster_ips::fit(service, None, errors) {
        validate(service, None, errors);
    }
}

pub(super) fn update(service: &Value, old: &Value, errors: &mut ErrorList) {
    if !cluster_ips::fit(service, Some(old), errors) {
        return;
    }
    cluster_ips::validate_update(service, old, errors);
    let class_at = SPEC.child("loadBalancerClass");
    if is_balanced(service) && is_balanced(old) && !same(service, old, &["spec", "loadBalancerClass"]) {
        let class = part(part(service, "spec"), "loadBalancerClass");
        errors.invalid(class_at, class, "may not change once set");
    }
    validate_balancer_class(service, errors);
    let checked = uses_health_check_port(service) && uses_health_check_port(old);
    if checked && !same(service, old, &["spec", "healthCheckNodePort"]) {
        errors.forbidden(SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    validate(service, Some(old), errors);
}

fn validate(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = part(service, "spec");
    validate_topology_annotations(service, errors);
    let external = service_type(service) == "ExternalName";
    if list(spec, "ports").is_empty() && !is_headless(service) && !external {
        errors.required(SPEC.child("ports"), "");
    }
    validate_type(service, errors);
    ports::validate(spec, errors);
    validate_labels(spec.get("selector"), &SPEC.child("selector"), errors);
    validate_session_affinity(spec, errors);
    validate_external_ips(spec, old, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &SPEC, errors);
    ports::validate_uniqueness(spec, service_type(service) == "ClusterIP", errors);
    validate_source_ranges(service, old, errors);
    validate_balancer_node_ports(service, errors);
    validate_balancer_class(service, errors);
    validate_traffic_policies(service, errors);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    any_of(spec, "trafficDistribution", &distributions, &SPEC, errors);
}

/// The older and the newer annotation must agree.
fn validate_topology_annotations(service: &Value, errors: &mut ErrorList) {
    let annotation = |key: &str| service.str_at(&["metadata", "annotations", key]);
    let hints = annotation(super::TOPOLOGY_HINTS);
    let Some(mode) = annotation(super::TOPOLOGY_MODE) else { return };
    if hints.is_some_and(|hints| hints != mode) {
        let at = METADATA.child("annotations");
        let why = format!("must match annotations[{}] when both are specified", super::TOPOLOGY_HINTS);
        errors.invalid(at.key(super::TOPOLOGY_MODE), &Value::from(mode), why);
    }
}

fn validate_type(service: &Value, errors: &mut ErrorList) {
    let spec = part(service, "spec");
    match service_type(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let at = SPEC.child("clusterIPs");
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid(at.index(0), &Value::from("None"), why);
        }
        "ExternalName" => validate_external_name(spec, errors),
        _ => {}
    }
}

fn validate_external_name(spec: &Value, errors: &mut ErrorList) {
    let why = "may not be set for ExternalName services";
    for key in ["clusterIPs", "ipFamilies"].into_iter().filter(|key| !list(spec, key).is_empty()) {
        errors.forbidden(SPEC.child(key), why);
    }
    if member(spec, "ipFamilyPolicy").is_some() {
        errors.forbidden(SPEC.child("ipFamilyPolicy"), why);
    }
    // A trailing dot marks a fully qualified name.
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    required(name, names::dns1123_subdomain, &SPEC.child("externalName"), errors);
}

fn validate_session_affinity(spec: &Value, errors: &mut ErrorList) {
    const MOST_SECONDS: i64 = 86_400;
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &SPEC, errors);
    let config_at = SPEC.child("sessionAffinityConfig");
    let config = member(spec, "sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "None" if config.is_some() => {
            errors.forbidden(config_at, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            let why = "when session affinity type is ClientIP";
            let Some(config) = config else { return errors.required(config_at, why) };
            let client_at = config_at.child("clientIP");
            let Some(client) = member(config, "clientIP") else { return errors.required(client_at, why) };
            let at = client_at.child("timeoutSeconds");
            let Some(seconds) = given(client, "timeoutSeconds") else { return errors.required(at, why) };
            if !(1..=MOST_SECONDS).contains(&seconds) {
                let why = format!("must be greater than 0 and less than {MOST_SECONDS}");
                errors.invalid(at, &Value::from(seconds), why);
            }
        }
        _ => {}
    }
}

/// A stored address is not validated again.
fn validate_external_ips(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let known = set_of(old.map_or(&[][..], |old| old.items_at(&["spec", "externalIPs"])));
    let at = SPEC.child("externalIPs");
    for (i, ip) in list(spec, "externalIPs").iter().enumerate() {
        let (at, before, text) = (at.index(i), errors.0.len(), ip.as_str().unwrap_or_default());
        if !known.contains(&ByContent(ip)) {
            legacy_ip(text, &at, errors);
        }
        if errors.0.len() == before {
            endpoint_ip(text, &at, errors);
        }
    }
}

/// Ranges are in the field or, in older objects, in an annotation.
fn validate_source_ranges(service: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const ANNOTATED: &[&str] = &["metadata", "annotations", ANNOTATION];
    const RANGES: &[&str] = &["spec", "loadBalancerSourceRanges"];
    let ranges = service.items_at(RANGES);
    let trimmed = |range| Value::as_str(range).unwrap_or_default().trim();
    if !ranges.is_empty() {
        let at = SPEC.child("LoadBalancerSourceRanges");
        if !is_balanced(service) {
            errors.forbidden(at, BALANCED_ONLY);
        }
        let known = old.map_or(&[][..], |old| old.items_at(RANGES));
        let known: HashSet<&str> = known.iter().map(trimmed).collect();
        for (i, range) in ranges.iter().map(trimmed).enumerate().filter(|(_, range)| !known.contains(range)) {
            legacy_cidr(range, &at.index(i), errors);
        }
    } else if let Some(annotated) = service.str_at(ANNOTATED) {
        let annotations = METADATA.child("annotations");
        let at = annotations.key(ANNOTATION);
        if !is_balanced(service) {
            errors.forbidden(at, BALANCED_ONLY);
        }
        let changed = old.is_none_or(|old| old.str_at(ANNOTATED).unwrap_or_default() != annotated);
        if changed && !annotated.trim().is_empty() {
            annotated.split(',').for_each(|range| legacy_cidr(range.trim(), &at, errors));
        }
    }
}

fn validate_balancer_node_ports(service: &Value, errors: &mut ErrorList) {
    const KEY: &str = "allocateLoadBalancerNodePorts";
    match (is_balanced(service), member(part(service, "spec"), KEY).is_some()) {
        (false, true) => errors.forbidden(SPEC.child(KEY), BALANCED_ONLY),
        (true, false) => errors.required(KEY, ""),
        _ => {}
    }
}

fn validate_balancer_class(service: &Value, errors: &mut ErrorList) {
    let at = SPEC.child("loadBalancerClass");
    match service.str_at(&["spec", "loadBalancerClass"]) {
        Some(class) if is_balanced(service) => complain(&at, class, names::qualified_name(class), errors),
        Some(_) => errors.forbidden(at, BALANCED_ONLY),
        None => {}
    }
}

fn validate_traffic_policies(service: &Value, errors: &mut ErrorList) {
    const POLICIES: &[&str] = &["Cluster", "Local"];
    let spec = part(service, "spec");
    let policy = text(spec, "externalTrafficPolicy");
    if reached_from_outside(service) {
        one_of(spec, "externalTrafficPolicy", POLICIES, &SPEC, errors);
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.invalid(SPEC.child("externalTrafficPolicy"), &Value::from(policy), why);
    }
    let (port, at) = (int(spec, "healthCheckNodePort"), SPEC.child("healthCheckNodePort"));
    match (uses_health_check_port(service), port) {
        (true, 0) => errors.required(at, ""),
        (true, port) => port_number(port, &at, errors),
        (false, 0) => {}
        (false, port) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(at, &Value::from(port), why);
        }
    }
    let internal = member(spec, "internalTrafficPolicy").is_some();
    if !internal && matches!(service_type(service), "ClusterIP" | "LoadBalancer" | "NodePort") {
        errors.required(SPEC.child("internalTrafficPolicy"), "");
    }
    any_of(spec, "internalTrafficPolicy", POLICIES, &SPEC, errors);
}

/// The addresses of a load balancer; stored ones are not validated again.
pub(super) fn status(service: &Value, old: &Value, errors: &mut ErrorList) {
    const INGRESS: &[&str] = &["status", "loadBalancer", "ingress"];
    let (status, ingress) = (Field::new("status"), service.items_at(INGRESS));
    let balancer = status.child("loadBalancer");
    let at = balancer.child("ingress");
    if !is_balanced(service) && !ingress.is_empty() {
        errors.forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let taken: HashSet<&str> = old.items_at(INGRESS).iter().map(|point| text(point, "ip")).collect();
    for (i, point) in ingress.iter().enumerate() {
        let known = taken.contains(text(point, "ip"));
        validate_ingress(point, known, &at.index(i), errors);
    }
}

fn validate_ingress(point: &Value, known: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let (ip, mode_at) = (text(point, "ip"), at.child("ipMode"));
    if !ip.is_empty() && !known {
        legacy_ip(ip, &at.child("ip"), errors);
    }
    match (member(point, "ipMode"), ip) {
        (None, "") => {}
        (None, _) => errors.required(mode_at, "must be specified when `ip` is set"),
        (Some(_), "") => errors.forbidden(mode_at, "may not be specified when `ip` is not set"),
        (Some(_), _) => any_of(point, "ipMode", &["Proxy", "VIP"], at, errors),
    }
    let (name, at) = (text(point, "hostname"), at.child("hostname"));
    optional(name, names::dns1123_subdomain, &at, errors);
    if parse_sloppy(name).as_ref().map(IpAddr::is_ipv4).is_some() {
        errors.invalid(at, &Value::from(name), "must be a DNS name, not an IP address");
    }
}
