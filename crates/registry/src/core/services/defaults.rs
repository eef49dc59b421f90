//! Defaults of a service: reachable inside the cluster, by any pod, on the ports it
//! forwards to. Addresses and node ports are allocated elsewhere.

use corten_api::{Map, Str, Value, value};

use crate::defaults::{child, fill_absent, fill_zero, is_absent, is_zero, items, made, text_of};

/// Three hours.
const AFFINITY_SECONDS: i32 = 10_800;

pub(super) fn service(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    fill_zero(spec, "type", "ClusterIP");
    session_affinity(spec);
    items(spec, "ports").for_each(port);
    let kind = text_of(spec, "type");
    let (balanced, in_cluster) = (kind == "LoadBalancer", kind == "ClusterIP");
    let on_nodes = balanced || kind == "NodePort";
    if on_nodes || in_cluster && !is_zero(spec, "externalIPs") {
        fill_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if on_nodes || in_cluster {
        fill_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill_absent(spec, "allocateLoadBalancerNodePorts", true);
        ingress_modes(object);
    }
}

/// Without affinity there is no configuration; with it, there is a timeout.
fn session_affinity(spec: &mut Map) {
    const CONFIG: &str = "sessionAffinityConfig";
    fill_zero(spec, "sessionAffinity", "None");
    match text_of(spec, "sessionAffinity") {
        "None" => {
            spec.remove(CONFIG);
        }
        "ClientIP" => {
            let client = child(spec, CONFIG).and_then(|config| child(config, "clientIP"));
            if client.is_none_or(|client| is_absent(client, "timeoutSeconds")) {
                let config = value!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                spec.insert(Str::new_static(CONFIG), config);
            }
        }
        _ => {}
    }
}

fn port(port: &mut Map) {
    fill_zero(port, "protocol", "TCP");
    if is_zero(port, "targetPort") {
        let number = port.get("port").and_then(Value::as_int).unwrap_or_default();
        fill_zero(port, "targetPort", number);
    }
}

/// The default mode of a load balancer's address is `VIP`.
fn ingress_modes(object: &mut Map) {
    let balancer = child(object, "status").and_then(|status| child(status, "loadBalancer"));
    for ingress in balancer.into_iter().flat_map(|balancer| items(balancer, "ingress")) {
        if !is_zero(ingress, "ip") {
            fill_absent(ingress, "ipMode", "VIP");
        }
    }
}
