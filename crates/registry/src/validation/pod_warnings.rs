//! Warnings about an accepted pod or template: deprecated values, values without effect, and values with another
//! effect than it seems.

use std::collections::HashMap;

use corten_api::status::quoted;
use corten_api::{Field, Map, Value, names};

use crate::validation::ip::ip_warning;
use crate::validation::node_labels::deprecation;
use crate::validation::number::{given, int};
use crate::validation::pod_annotations::{
    APPARMOR_FIELD, APPARMOR_PREFIX, SECCOMP_FIELD, SECCOMP_POD, SECCOMP_PREFIX, annotation,
    container_annotation, profile,
};
use crate::validation::pod_context::CONTAINER_LISTS;
use crate::validation::repeats::Repeats;
use crate::validation::resources::{amount, spelled};
use crate::validation::text::{list, member, text};
use crate::validation::volume_warnings::volume_warnings;

/// All warnings about a pod, which is the root, or a template.
pub(crate) fn pod_warnings(metadata: &Value, spec: &Value, is_template: bool, at: &Field<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec_at = at.child("spec");
    let annotations_at = at.child("metadata");
    let annotations_at = annotations_at.child("annotations");
    warn_of_node_labels(spec, &spec_at, &mut warnings);
    warn_of_spread(spec, &spec_at.child("topologySpreadConstraints"), &mut warnings);
    warn_of_annotations(metadata, &annotations_at, &mut warnings);
    volume_warnings(list(spec, "volumes"), &spec_at.child("volumes"), &mut warnings);
    warn_of_repetition(spec, "hostAliases", "ip", &spec_at, &mut warnings);
    warn_of_repetition(spec, "imagePullSecrets", "name", &spec_at, &mut warnings);
    warn_of_nameless_secrets(spec, &spec_at.child("imagePullSecrets"), &mut warnings);
    warn_of_fractions(
        spec.get("overhead"),
        &spec_at.child("overhead"),
        ["memory", "ephemeral-storage"],
        &mut warnings,
    );
    warn_of_pod_seccomp(metadata, spec, &annotations_at, &mut warnings);
    for_containers(spec, &spec_at, |container, at| {
        warn_of_profiles(metadata, spec, container, is_template, &annotations_at, &mut warnings);
        warn_of_container(container, at, &mut warnings);
    });
    warn_of_ports(spec, &spec_at, &mut warnings);
    if given(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = spec_at.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warn_of_affinity(spec, &spec_at.child("affinity"), &mut warnings);
    warn_of_addresses(spec, &spec_at, &mut warnings);
    warnings
}

fn for_containers(spec: &Value, at: &Field<'_>, mut visit: impl FnMut(&Value, &Field<'_>)) {
    for key in CONTAINER_LISTS {
        let at = at.child(key);
        for (i, container) in list(spec, key).iter().enumerate() {
            visit(container, &at.index(i));
        }
    }
}

fn warn_of_node_labels(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    let selector_at = at.child("nodeSelector");
    for (key, _) in spec.get("nodeSelector").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        if let Some(why) = deprecation(key) {
            warnings.push(format!("{}: {why}", selector_at.key(key)));
        }
    }
    let Some(affinity) = spec.at(&["affinity", "nodeAffinity"]) else { return };
    let at = at.child("affinity");
    let at = at.child("nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms_at = at.child(required);
    let terms_at = terms_at.child("nodeSelectorTerms");
    for (i, term) in affinity.items_at(&[required, "nodeSelectorTerms"]).iter().enumerate() {
        warn_of_node_term(term, false, &terms_at.index(i), warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let preferred_at = at.child(preferred);
    for (i, term) in list(affinity, preferred).iter().enumerate() {
        if let Some(preference) = term.get("preference") {
            warn_of_node_term(preference, true, &preferred_at.index(i).child("preference"), warnings);
        }
    }
}

/// Preferences may have values that no label can have, and match nothing.
fn warn_of_node_term(term: &Value, look_at_values: bool, at: &Field<'_>, warnings: &mut Vec<String>) {
    let at = at.child("matchExpressions");
    for (i, expression) in list(term, "matchExpressions").iter().enumerate() {
        let (key, at) = (text(expression, "key"), at.index(i));
        if let Some(why) = deprecation(key) {
            warnings.push(format!("{}: {key} is {why}", at.child("key")));
        }
        if !look_at_values {
            continue;
        }
        for (j, value) in list(expression, "values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for why in names::label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {why}", at.child("values").index(j)));
            }
        }
    }
}

fn warn_of_spread(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    for (i, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let (key, at) = (text(constraint, "topologyKey"), at.index(i));
        if let Some(why) = deprecation(key) {
            warnings.push(format!("{}: {key} is {why}", at.child("topologyKey")));
        }
        warn_of_no_selector(constraint, &at, warnings);
    }
}

fn warn_of_no_selector(term: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    if member(term, "labelSelector").is_none() {
        let at = at.child("labelSelector");
        warnings.push(format!("{at}: a null labelSelector results in matching no pod"));
    }
}

fn warn_of_annotations(metadata: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    const DEAD: [(&str, &str); 3] = [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "non-functional in v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
    ];
    for (key, why) in DEAD {
        if annotation(metadata, key).is_some() {
            warnings.push(format!("{}: {why}", at.key(key)));
        }
    }
}

fn warn_of_repetition(spec: &Value, key: &str, part: &str, at: &Field<'_>, warnings: &mut Vec<String>) {
    let (items, at) = (list(spec, key), at.child(key));
    let repeats = Repeats::of(items, |item| text(item, part));
    for (i, item) in items.iter().enumerate() {
        let own = text(item, part);
        if repeats.at(i) {
            warnings.push(format!("{}: duplicate {part} {}", at.index(i).child(part), quoted(own)));
        }
    }
}

fn warn_of_nameless_secrets(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    for (i, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", at.index(i).child("name")));
        }
    }
}

/// Quantities of bytes are whole.
fn warn_of_fractions<const N: usize>(
    resources: Option<&Value>,
    at: &Field<'_>,
    keys: [&str; N],
    warnings: &mut Vec<String>,
) {
    for key in keys {
        let Some(value) = resources.and_then(|resources| resources.get(key)) else { continue };
        if amount(value).milli_value() % 1000 != 0 {
            let value = spelled(value);
            let shown = quoted(value.as_str().unwrap_or_default());
            let at = at.key(key);
            warnings.push(format!("{at}: fractional byte value {shown} is invalid, must be an integer"));
        }
    }
}

const NO_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

fn warn_of_pod_seccomp(metadata: &Value, spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    if annotation(metadata, SECCOMP_POD).is_some() && profile(spec, SECCOMP_FIELD).is_none() {
        warnings.push(format!("{}: {NO_SECCOMP}", at.key(SECCOMP_POD)));
    }
}

/// Profiles that are only annotations. A pod's AppArmor profiles were already converted to fields.
fn warn_of_profiles(
    metadata: &Value,
    spec: &Value,
    container: &Value,
    is_template: bool,
    at: &Field<'_>,
    warnings: &mut Vec<String>,
) {
    let name = text(container, "name");
    let seccomp = container_annotation(metadata, SECCOMP_PREFIX, container);
    if seccomp.is_some() && profile(container, SECCOMP_FIELD).is_none() {
        warnings.push(format!("{}: {NO_SECCOMP}", at.key(&format!("{SECCOMP_PREFIX}{name}"))));
    }
    let Some(annotated) = container_annotation(metadata, APPARMOR_PREFIX, container) else { return };
    let same = profile(spec, APPARMOR_FIELD).is_some_and(|profile| match text(profile, "type") {
        "Unconfined" => annotated == "unconfined",
        "RuntimeDefault" => annotated == "runtime/default",
        "Localhost" => annotated.strip_prefix("localhost/") == Some(text(profile, "localhostProfile")),
        _ => false,
    });
    if is_template && profile(container, APPARMOR_FIELD).is_none() && !same {
        let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        warnings.push(format!("{}: {why}", at.key(&format!("{APPARMOR_PREFIX}{name}"))));
    }
}

fn warn_of_container(container: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    let at_resources = at.child("resources");
    for resource in ["memory", "ephemeral-storage"] {
        for key in ["limits", "requests"] {
            let amounts = container.at(&["resources", key]);
            warn_of_fractions(amounts, &at_resources.child(key), [resource], warnings);
        }
    }
    let variables = list(container, "env");
    let repeats = Repeats::of(variables, |item| text(item, "name"));
    for (i, variable) in variables.iter().enumerate() {
        let name = text(variable, "name");
        if !repeats.at(i) {
            continue;
        }
        // A variable may refer to its previous value: then it is repeated on purpose.
        let (value, reference) = (text(variable, "value"), format!("$({name})"));
        let extends = value.contains(&reference) && value != reference;
        if !extends || member(variable, "valueFrom").is_some() {
            let (at, shown) = (at.child("env"), quoted(name));
            let at = at.index(i);
            warnings.push(format!(
                "{at}: hides previous definition of {shown}, which may be dropped when using apply"
            ));
        }
    }
}

/// Maximum number of ports of the same number that a port is compared with: more warnings are of no use.
const MOST_COMPARED: usize = 100;

/// A port, and its list, container and index.
type Port<'v> = (&'v Value, &'static str, usize, usize);

/// Ports of all containers, which share the pod's address.
fn ports(spec: &Value) -> impl Iterator<Item = Port<'_>> {
    CONTAINER_LISTS.into_iter().flat_map(move |key| {
        list(spec, key).iter().enumerate().flat_map(move |(i, container)| {
            list(container, "ports").iter().enumerate().map(move |(j, port)| (port, key, i, j))
        })
    })
}

fn warn_of_ports(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    let place = |(_, key, i, j): Port<'_>| {
        let at = at.child(key);
        let at = at.index(i);
        at.child("ports").index(j).to_string()
    };
    let mut earlier: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
    for own in ports(spec) {
        let port = own.0;
        if !text(port, "hostIP").is_empty() && int(port, "hostPort") == 0 {
            warnings.push(format!("{}: hostIP set without hostPort: {}", place(own), printed_port(port)));
        }
        let same = earlier.entry((int(port, "containerPort"), text(port, "protocol"))).or_default();
        for other in same.iter().take(MOST_COMPARED) {
            if let Some(how) = conflict(port, other.0) {
                warnings.push(format!("{}: {how} port definition with {}", place(own), place(*other)));
            }
        }
        same.push(own);
    }
    let mut firsts: HashMap<&str, Port<'_>> = HashMap::new();
    for own in ports(spec) {
        let name = text(own.0, "name");
        if name.is_empty() {
            continue;
        }
        let first = *firsts.entry(name).or_insert(own);
        if !std::ptr::eq(first.0, own.0) {
            let (own, first, name) = (place(own), place(first), quoted(name));
            warnings.push(format!(
                "{own}: duplicate port name {name} with {first}, services and probes that select ports by name will use {first}"
            ));
        }
    }
}

/// The conflict of two definitions of a port.
fn conflict(a: &Value, b: &Value) -> Option<&'static str> {
    let ports = (int(a, "hostPort"), int(b, "hostPort"));
    let ips = (text(a, "hostIP"), text(b, "hostIP"));
    if ips.0 == ips.1 && ports.0 == ports.1 {
        Some("duplicate")
    } else if ports.0 == 0 || ports.1 == 0 {
        Some("overlapping")
    } else if ports.0 == ports.1 && ips.0.is_empty() != ips.1.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go prints a struct with its fields.
fn printed_port(port: &Value) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        text(port, "name"),
        int(port, "hostPort"),
        int(port, "containerPort"),
        text(port, "protocol"),
        text(port, "hostIP")
    )
}

fn warn_of_affinity(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.at(&["affinity", kind]) else { continue };
        let at = at.child(kind);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let required_at = at.child(required);
        for (i, term) in list(affinity, required).iter().enumerate() {
            warn_of_no_selector(term, &required_at.index(i), warnings);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let preferred_at = at.child(preferred);
        for (i, weighted) in list(affinity, preferred).iter().enumerate() {
            let at = preferred_at.index(i);
            let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
            warn_of_no_selector(term, &at.child("podAffinityTerm"), warnings);
        }
    }
}

fn warn_of_addresses(spec: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    let servers_at = at.child("dnsConfig");
    let servers_at = servers_at.child("nameservers");
    for (i, server) in spec.items_at(&["dnsConfig", "nameservers"]).iter().enumerate() {
        warnings.extend(ip_warning(server.as_str().unwrap_or_default(), &servers_at.index(i)));
    }
    let aliases_at = at.child("hostAliases");
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        warnings.extend(ip_warning(text(alias, "ip"), &aliases_at.index(i).child("ip")));
    }
}
