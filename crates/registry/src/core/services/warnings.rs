//! Warnings about accepted services.

use corten_api::{Field, Value};

use super::service_type;
use crate::validation::fields::part;
use crate::validation::ip::{cidr_warnings, ip_warning};
use crate::validation::text::{list, text};

const SPEC: Field<'static> = Field::new("spec");

pub(super) fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = part(service, "spec");
    if service.str_at(&["metadata", "annotations", super::TOPOLOGY_HINTS]).is_some() {
        warnings.push(format!(
            "annotation {} is deprecated, please use {} instead",
            super::TOPOLOGY_HINTS,
            super::TOPOLOGY_MODE
        ));
    }
    let headless = service_type(service) == "ClusterIP" && text(spec, "clusterIP") == "None";
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        warn_of_ips(spec, "clusterIPs", &mut warnings);
    }
    if headless {
        warn_of_ignored(spec, &mut warnings);
    }
    warn_of_ips(spec, "externalIPs", &mut warnings);
    let external_ips = !list(spec, "externalIPs").is_empty();
    let external_name = service_type(service) == "ExternalName";
    if external_ips && !headless && !external_name {
        let warning = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    warnings.extend(ip_warning(text(spec, "loadBalancerIP"), &SPEC.child("loadBalancerIP")));
    let at = SPEC.child("loadBalancerSourceRanges");
    for (i, range) in list(spec, "loadBalancerSourceRanges").iter().enumerate() {
        cidr_warnings(range.as_str().unwrap_or_default(), &at.index(i), &mut warnings);
    }
    if external_name && external_ips {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external_name && !text(spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let warning = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}

/// Fields that a headless service ignores.
fn warn_of_ignored(spec: &Value, warnings: &mut Vec<String>) {
    let ignored = [
        ("loadBalancerIP", !text(spec, "loadBalancerIP").is_empty()),
        ("externalIPs", !list(spec, "externalIPs").is_empty()),
        ("SessionAffinity", text(spec, "sessionAffinity") != "None"),
    ];
    for (field, _) in ignored.into_iter().filter(|(_, set)| *set) {
        warnings.push(format!("spec.{field} is ignored for headless services"));
    }
}

fn warn_of_ips(spec: &Value, key: &str, warnings: &mut Vec<String>) {
    let at = SPEC.child(key);
    for (i, ip) in list(spec, key).iter().enumerate() {
        warnings.extend(ip_warning(ip.as_str().unwrap_or_default(), &at.index(i)));
    }
}
