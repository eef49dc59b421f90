//! The runtime's configuration of a pod's sandbox.

use corten_api::Value;
use corten_container::{
    LinuxPodSandboxConfig, Map, NamespaceMode, NamespaceOptions, PodSandboxConfig, PodSandboxMetadata,
    PortMapping, Protocol,
};

use super::{NodeConfig, security};
use crate::admission::dotted;
use crate::containers::labels;
use crate::pod::{HostNamespace, Pod};
use crate::resources::cgroup_of;

/// The longest host name of Linux.
const MAX_HOSTNAME: usize = 63;

pub(crate) fn sandbox_config(pod: &Pod, attempt: u32, node: &NodeConfig) -> PodSandboxConfig {
    let on_host = pod.uses_host(HostNamespace::Network);
    PodSandboxConfig {
        metadata: PodSandboxMetadata {
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            attempt,
        },
        hostname: if on_host { String::new() } else { hostname(pod, &node.resolver.cluster_domain).0 },
        log_directory: labels::log_directory(&node.log_root, pod),
        dns_config: Some(node.resolver.of_pod(pod)),
        port_mappings: if on_host { Vec::new() } else { port_mappings(pod) },
        labels: labels::sandbox_labels(pod),
        annotations: labels::sandbox_annotations(pod),
        linux: LinuxPodSandboxConfig {
            cgroup_parent: cgroup_of(pod),
            security_context: security::of_sandbox(pod, node),
            sysctls: sysctls(pod),
            ..LinuxPodSandboxConfig::default()
        },
    }
}

/// A pod's host name and its domain; the domain may be empty.
pub(crate) fn hostname(pod: &Pod, cluster_domain: &str) -> (String, String) {
    let text = |key: &str| pod.tree().str_at(&["spec", key]).filter(|text| !text.is_empty());
    if let Some(whole) = text("hostnameOverride") {
        return (whole.to_owned(), String::new());
    }
    let name = text("hostname").unwrap_or_else(|| pod.name());
    let end = name.len().min(MAX_HOSTNAME);
    let name = name.get(..end).unwrap_or(name).trim_end_matches(['-', '.']).to_owned();
    let domain = text("subdomain")
        .map(|subdomain| format!("{subdomain}.{}.svc.{cluster_domain}", pod.namespace()))
        .unwrap_or_default();
    let whole = pod.tree().bool_at(&["spec", "setHostnameAsFQDN"]).unwrap_or(false);
    match whole && !domain.is_empty() {
        true => (format!("{name}.{domain}"), domain),
        false => (name, domain),
    }
}

/// The namespaces that a pod's containers share with each other and with the node.
pub(super) fn namespaces(pod: &Pod) -> NamespaceOptions {
    let mode = |host: HostNamespace, otherwise: NamespaceMode| match pod.uses_host(host) {
        true => NamespaceMode::Node,
        false => otherwise,
    };
    let shared = pod.tree().bool_at(&["spec", "shareProcessNamespace"]).unwrap_or(false);
    let processes = if shared { NamespaceMode::Pod } else { NamespaceMode::Container };
    NamespaceOptions {
        network: mode(HostNamespace::Network, NamespaceMode::Pod),
        pid: mode(HostNamespace::Pid, processes),
        ipc: mode(HostNamespace::Ipc, NamespaceMode::Pod),
        target_id: String::new(),
    }
}

fn port_mappings(pod: &Pod) -> Vec<PortMapping> {
    let ports = pod.containers().iter().flat_map(|c| c.tree.items_at(&["ports"]));
    ports.filter_map(port_mapping).collect()
}

fn port_mapping(port: &Value) -> Option<PortMapping> {
    let number = |key: &str| port.int_at(&[key]).and_then(|number| u16::try_from(number).ok());
    Some(PortMapping {
        protocol: match port.str_at(&["protocol"]) {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        },
        container_port: number("containerPort")?,
        host_port: number("hostPort").unwrap_or(0),
        host_ip: port.str_at(&["hostIP"]).unwrap_or_default().to_owned(),
    })
}

/// A pod's sysctls, named with dots.
fn sysctls(pod: &Pod) -> Map {
    let asked = pod.tree().items_at(&["spec", "securityContext", "sysctls"]).iter();
    asked
        .filter_map(|sysctl| {
            let name = sysctl.str_at(&["name"])?;
            Some((dotted(name), sysctl.str_at(&["value"]).unwrap_or_default().to_owned()))
        })
        .collect()
}
