//! Validation of a pod's status: no invalid states, and no terminated container that runs again. Allocated resources of
//! containers are in a file of their own.

use std::collections::{HashMap, HashSet};

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::container_status::{validate_allocated, validate_image_references, validate_users};
use super::validate_annotations;
use crate::table::str_at;
use crate::validation::fields::part;
use crate::validation::internal_form;
use crate::validation::ip::{legacy_ip, parse_sloppy};
use crate::validation::number::int;
use crate::validation::pod_context::is_sidecar;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text};

const STATUS: Field<'static> = Field::new("status");
/// Statuses of containers, and where the containers are.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

pub(super) fn validate_status(pod: &Value, old: &Value, errors: &mut ErrorList) {
    validate_annotations(pod, old, errors);
    let (status, old_status, spec) = (part(pod, "status"), part(old, "status"), part(old, "spec"));
    validate_conditions(status, &STATUS.child("conditions"), errors);
    validate_nominated_node(status, old_status, spec, &STATUS.child("nominatedNodeName"), errors);
    let generation = int(status, "observedGeneration");
    if generation < 0 {
        let at = STATUS.child("observedGeneration");
        errors.invalid(at, &Value::from(generation), "must be a non-negative integer");
    }
    let class = text(status, "qosClass");
    if class != text(old_status, "qosClass") {
        errors.invalid(STATUS.child("qosClass"), &Value::from(class), "field is immutable");
    }
    for (statuses, containers) in STATUSES {
        let (new, old) = (list(status, statuses), list(old_status, statuses));
        validate_transitions(spec, containers, new, old, &STATUS.child(statuses), errors);
    }
    validate_claim_statuses(status, spec, &STATUS.child("resourceClaimStatuses"), errors);
    validate_extended_claim(status, spec, &STATUS.child("extendedResourceClaimStatus"), errors);
    validate_pod_ips(status, old_status, &STATUS.child("podIPs"), errors);
    validate_host_ips(status, old_status, &STATUS.child("hostIPs"), errors);
    let windows = str_at(spec, &["os", "name"]) == "windows";
    for (statuses, _) in STATUSES {
        validate_users(list(status, statuses), windows, &STATUS.child(statuses), errors);
    }
    for (statuses, containers) in STATUSES {
        let (list, at) = (list(status, statuses), STATUS.child(statuses));
        validate_allocated(status, list, spec, containers, &at, errors);
    }
    for (statuses, _) in STATUSES {
        validate_image_references(list(status, statuses), &STATUS.child(statuses), errors);
    }
}

fn validate_conditions(status: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, condition) in list(status, "conditions").iter().enumerate() {
        let generation = int(condition, "observedGeneration");
        if generation < 0 {
            let at = at.index(i);
            let why = "must be a non-negative integer";
            errors.invalid(at.child("observedGeneration"), &Value::from(generation), why);
        }
        let kind = text(condition, "type");
        complain(&at.index(i).child("Type"), kind, names::qualified_name(kind), errors);
    }
}

fn validate_nominated_node(
    status: &Value,
    old_status: &Value,
    spec: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let node = text(status, "nominatedNodeName");
    if node.is_empty() || node == text(old_status, "nominatedNodeName") {
        return;
    }
    complain(at, node, names::dns1123_subdomain(node), errors);
    if !text(spec, "nodeName").is_empty() {
        errors.forbidden(at, "may not be set on pods that are already bound to a node");
    }
}

fn terminated(status: &Value) -> Option<&Value> {
    status.get("state").and_then(|state| member(state, "terminated"))
}

/// A terminated container runs again only where it is restarted.
fn validate_transitions(
    spec: &Value,
    containers: &str,
    new: &[Value],
    old: &[Value],
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let ephemeral = containers == "ephemeralContainers";
    if !ephemeral && all_could_restart(spec) {
        return;
    }
    let begun = new.iter().filter(|status| terminated(status).is_none());
    let begun: HashSet<&str> = begun.map(|status| text(status, "name")).collect();
    // The first of several with one name counts.
    let by_name: HashMap<&str, &Value> =
        list(spec, containers).iter().rev().map(|container| (text(container, "name"), container)).collect();
    for (i, old) in old.iter().enumerate() {
        let Some(end) = terminated(old) else { continue };
        let name = text(old, "name");
        if !begun.contains(name) {
            continue;
        }
        let container = by_name.get(name);
        let restarts =
            container.is_some_and(|container| should_restart(spec, container, int(end, "exitCode")));
        if ephemeral || !restarts {
            let why = "may not be transitioned to non-terminated state";
            errors.forbidden(at.index(i).child("state"), why);
        }
    }
}

/// Returns true if the exit of a container may restart all containers.
fn all_could_restart(spec: &Value) -> bool {
    let mut containers = list(spec, "initContainers").iter().chain(list(spec, "containers"));
    containers.any(|container| {
        let mut rules = list(container, "restartPolicyRules").iter();
        rules.any(|rule| text(rule, "action") == "RestartAllContainers")
    })
}

fn should_restart(spec: &Value, container: &Value, exit_code: i64) -> bool {
    let matches = |rule: &&Value| {
        let codes = rule.get("exitCodes").unwrap_or(&Value::Null);
        let listed = list(codes, "values").iter().any(|code| code.as_int() == Some(exit_code));
        match text(codes, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    };
    let mut policy = text(spec, "restartPolicy");
    if let Some(own) = container.get("restartPolicy").and_then(Value::as_str) {
        let rule = list(container, "restartPolicyRules").iter().find(matches);
        if rule.is_some_and(|rule| text(rule, "action") == "Restart") || is_sidecar(container) {
            return true;
        }
        policy = own;
    }
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

fn validate_claim_statuses(status: &Value, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let claims: HashSet<&str> =
        list(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    let statuses = list(status, "resourceClaimStatuses");
    let repeats = Repeats::of(statuses, |item| text(item, "name"));
    for (i, status) in statuses.iter().enumerate() {
        let (name, at) = (text(status, "name"), at.index(i));
        if !claims.contains(name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(at.child("name"), &Value::from(name), why);
        }
        if repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
        if let Some(claim) = status.get("resourceClaimName").and_then(Value::as_str) {
            complain(&at.child("resourceClaimName"), claim, names::dns1123_subdomain(claim), errors);
        }
    }
}

/// The claim for containers' requests of extended resources.
fn validate_extended_claim(status: &Value, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(claim) = member(status, "extendedResourceClaimStatus") else { return };
    let mappings_at = at.child("requestMappings");
    let mappings = list(claim, "requestMappings");
    if mappings.is_empty() {
        errors.required(mappings_at, "at least one request mapping is required");
    }
    let mut containers: HashMap<&str, &Value> = HashMap::new();
    for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
        containers.entry(text(container, "name")).or_insert(container);
    }
    let keys = ["containerName", "resourceName", "requestName"];
    let repeats = Repeats::of(mappings, |mapping| keys.map(|key| text(mapping, key)));
    for (i, mapping) in mappings.iter().enumerate() {
        let mapping_at = mappings_at.index(i);
        validate_mapped_container(mapping, &containers, &mapping_at, errors);
        let request = text(mapping, "requestName");
        complain(&at.child("requestName"), request, names::dns1123_label(request), errors);
        if repeats.at(i) {
            for key in keys {
                errors.duplicate(mapping_at.child(key), &Value::from(text(mapping, key)));
            }
        }
    }
    match text(claim, "resourceClaimName") {
        "" => errors.required(at.child("resourceClaimName"), ""),
        name => complain(&at.child("resourceClaimName"), name, names::dns1123_subdomain(name), errors),
    }
}

fn validate_mapped_container(
    mapping: &Value,
    containers: &HashMap<&str, &Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (name, resource) = (text(mapping, "containerName"), text(mapping, "resourceName"));
    match containers.get(name) {
        None => {
            let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
            errors.invalid(at.child("containerName"), &Value::from(name), why);
        }
        Some(container) if container.at(&["resources", "requests", resource]).is_none() => {
            let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
            errors.invalid(at.child("resourceName"), &Value::from(resource), why);
        }
        Some(_) => {}
    }
}

fn address(ip: &Value) -> &str {
    text(ip, "ip")
}

/// At most one address of each family.
fn validate_families(kind: &str, ips: &[Value], old: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let known: HashSet<&str> = old.iter().map(address).collect();
    for (i, ip) in ips.iter().map(address).enumerate().filter(|(_, ip)| !known.contains(ip)) {
        legacy_ip(ip, &at.index(i), errors);
    }
    if ips.len() < 2 {
        return;
    }
    let parsed = || ips.iter().map(|ip| parse_sloppy(address(ip)));
    if let Some((i, bad)) = ips.iter().map(address).enumerate().find(|(_, ip)| parse_sloppy(ip).is_none()) {
        errors.internal(at, format!("failed to check for dual stack with error:invalid IP[{i}]: {bad}"));
    }
    let families = |v4: bool| parsed().flatten().filter(|ip| ip.to_canonical().is_ipv4() == v4).count();
    if ips.len() > 2 || families(true) != 1 || families(false) != 1 {
        let shown = internal_form::compact_list(kind, ips);
        errors.invalid_shown(at, shown, "may specify no more than one IP for each IP family");
    }
}

fn validate_pod_ips(status: &Value, old_status: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (ip, ips) = (text(status, "podIP"), list(status, "podIPs"));
    validate_families("PodIP", ips, list(old_status, "podIPs"), at, errors);
    match ips.first().map(address) {
        None if ip.is_empty() => {}
        Some(first) if !ip.is_empty() => {
            if first != ip {
                errors.invalid(at.index(0).child("ip"), &Value::from(first), "must be equal to `podIP`");
            }
        }
        _ => {
            let shown = internal_form::compact_list("PodIP", ips);
            errors.invalid_shown(at, shown, "podIP and podIPs must either both be set or both be unset");
        }
    }
}

fn validate_host_ips(status: &Value, old_status: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let ips = list(status, "hostIPs");
    if let Some(first) = ips.first().map(address).filter(|first| *first != text(status, "hostIP")) {
        errors.invalid(at.index(0).child("ip"), &Value::from(first), "must be equal to `hostIP`");
    }
    validate_families("HostIP", ips, list(old_status, "hostIPs"), at, errors);
}
