//! A pod's spec, in pods and in templates: the order of its checks, and those too small for a
//! file of their own.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::containers::{
    validate_containers, validate_ephemeral_containers, validate_init_containers,
};
use crate::validation::fields::one_of;
use crate::validation::label_selector::validate_labels;
use crate::validation::pod_context::{PodContext, visit_containers};
use crate::validation::pod_network::{validate_dns_config, validate_host_aliases, validate_host_ports};
use crate::validation::pod_resources::{validate_pod_resources, validate_resource_claims};
use crate::validation::repeats::Repeats;
use crate::validation::requirements::validate_overhead;
use crate::validation::security_context::validate_pod_security_context;
use crate::validation::text::{complain, list, member, optional, text};
use crate::validation::toleration::validate_tolerations;
use crate::validation::topology_spread::validate_topology_spread_constraints;
use crate::validation::volume::validate_volumes;
use crate::validation::{affinity, number, tolerance, windows};

const MOST_SECONDS: i64 = i32::MAX as i64;

/// All errors of a spec, in upstream's order.
pub(crate) fn validate_pod_spec(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let spec = context.spec;
    if member(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(at.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = validate_volumes(context, &at.child("volumes"), errors);
    validate_resource_claims(context, &at.child("resourceClaims"), errors);
    validate_containers(context, &volumes, &at.child("containers"), errors);
    validate_init_containers(context, &volumes, &at.child("initContainers"), errors);
    validate_ephemeral_containers(context, &volumes, &at.child("ephemeralContainers"), errors);
    validate_pod_resources(context, at, errors);
    validate_host_ports(context, at, errors);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], at, errors);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", &dns_policies, at, errors);
    validate_labels(spec.get("nodeSelector"), &at.child("nodeSelector"), errors);
    validate_pod_security_context(context, &at.child("securityContext"), errors);
    if context.is("shareProcessNamespace") && context.is("hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(at.child("shareProcessNamespace"), &Value::from(true), why);
    }
    affinity::validate_affinity(context, &at.child("affinity"), errors);
    validate_dns_config(spec, &at.child("dnsConfig"), errors);
    validate_readiness_gates(spec, &at.child("readinessGates"), errors);
    validate_scheduling_gates(spec, &at.child("schedulingGates"), errors);
    validate_topology_spread_constraints(context, &at.child("topologySpreadConstraints"), errors);
    windows::validate_host_process(context, at, errors);
    validate_host_users(context, at, errors);
    validate_hostname_override(context, &at.child("hostnameOverride"), errors);
    validate_names_and_the_rest(context, at, errors);
}

fn validate_names_and_the_rest(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let spec = context.spec;
    let name = |key: &str, format: fn(&str) -> Vec<String>, errors: &mut ErrorList| {
        optional(text(spec, key), format, &at.child(key), errors);
    };
    name("serviceAccountName", names::dns1123_subdomain, errors);
    name("nodeName", names::dns1123_subdomain, errors);
    if let Some(seconds) = number::given(spec, "activeDeadlineSeconds") {
        number::in_range(seconds, 1, MOST_SECONDS, &at.child("activeDeadlineSeconds"), errors);
    }
    name("hostname", names::dns1123_label, errors);
    name("subdomain", names::dns1123_label, errors);
    validate_tolerations(list(spec, "tolerations"), &at.child("tolerations"), errors);
    validate_host_aliases(spec, &at.child("hostAliases"), errors);
    name("priorityClassName", names::dns1123_subdomain, errors);
    if let Some(class) = spec.get("runtimeClassName").and_then(Value::as_str) {
        complain(&at.child("runtimeClassName"), class, names::dns1123_subdomain(class), errors);
    }
    if member(spec, "preemptionPolicy").is_some() {
        one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], at, errors);
    }
    validate_overhead(context, &at.child("overhead"), errors);
    windows::validate_os(context, at, errors);
    validate_scheduling_group(spec, &at.child("schedulingGroup"), errors);
    validate_file_key_volumes(spec, at, errors);
}

fn validate_readiness_gates(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        complain(&at.index(i).child("conditionType"), condition, names::qualified_name(condition), errors);
    }
}

fn validate_scheduling_gates(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let gates = list(spec, "schedulingGates");
    let repeats = Repeats::of(gates, |item| text(item, "name"));
    for (i, gate) in gates.iter().enumerate() {
        let name = text(gate, "name");
        complain(&at.index(i), name, names::qualified_name(name), errors);
        if repeats.at(i) {
            errors.duplicate(at.index(i), &Value::from(name));
        }
    }
}

/// A user namespace is incompatible with the host's namespaces and devices.
fn validate_host_users(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    if context.host_users() {
        return;
    }
    const WHY: &str = "when `hostUsers` is false";
    if context.is("hostNetwork") && !context.old(tolerance::user_namespace_and_host_network) {
        errors.forbidden(at.child("hostNetwork"), WHY);
    }
    for (key, name) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if context.is(key) {
            errors.forbidden(at.child(name), WHY);
        }
    }
    visit_containers(context.spec, at, errors, &mut |container, at, errors| {
        let devices = !list(container, "volumeDevices").is_empty();
        if devices && !context.old(tolerance::user_namespace_and_devices) {
            errors.forbidden(at.child("volumeDevices"), WHY);
        }
    });
}

fn validate_hostname_override(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 64;
    let Some(hostname) = context.spec.get("hostnameOverride").and_then(Value::as_str) else { return };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if context.is(key) {
            errors.forbidden(at, format!("may not be specified when {key} is true"));
        }
    }
    if hostname.len() > MOST {
        errors.too_long(at, MOST);
    }
    complain(at, hostname, names::dns1123_subdomain(hostname), errors);
}

fn validate_scheduling_group(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(group) = member(spec, "schedulingGroup") else { return };
    let at = at.child("podGroupName");
    match group.get("podGroupName").and_then(Value::as_str) {
        None => errors.invalid(at, &Value::Null, "must specify one of: `podGroupName`"),
        Some(name) => complain(&at, name, names::dns1123_subdomain(name), errors),
    }
}

/// Variables may be read only from files in empty directories.
fn validate_file_key_volumes(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    visit_containers(spec, at, errors, &mut |container, at, errors| {
        let at = at.child("env");
        for (i, variable) in list(container, "env").iter().enumerate() {
            let Some(file) = variable.at(&["valueFrom", "fileKeyRef"]).filter(|file| !file.is_null()) else {
                continue;
            };
            let (variable_at, name) = (at.index(i), text(file, "volumeName"));
            let (source_at, bad) = (variable_at.child("valueFrom"), Value::from(name));
            let file_at = source_at.child("fileKeyRef");
            match list(spec, "volumes").iter().rfind(|volume| text(volume, "name") == name) {
                None => errors.not_found(file_at.child("volumeName"), &bad),
                Some(volume) if member(volume, "emptyDir").is_none() => {
                    let why = "referenced volume must be of type emptyDir";
                    errors.invalid(file_at.child("volumeName"), &bad, why);
                }
                Some(_) => {}
            }
        }
    });
}
