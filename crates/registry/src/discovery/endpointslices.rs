//! Endpoint slices: parts of a service's endpoints. There is no spec: the generation counts changes of everything but
//! metadata, and of labels.

mod validate;

use std::collections::HashSet;

use corten_api::Value;

use crate::defaults::{fill_absent, items};
use crate::prepare::same;
use crate::rules::{Generation, Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, first_few, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    prefix_on_update: true,
    storage_prefix: "endpointslices",
    generation: Generation {
        initial: 1,
        counts: &[&["addressType"], &["endpoints"], &["ports"], &["metadata", "labels"]],
    },
    counts_disabled_fields: true,
    default,
    prepare_create: |object, _| drop(drop_topology(object)),
    prepare_update,
    validate_create: validate::create,
    validate_update: validate::update,
    warnings: validate::warnings,
    columns: &[
        NAME,
        text("AddressType", "What its addresses are.").of("discovery/v1.EndpointSlice", "addressType"),
        text("Ports", "Ports of every endpoint.").of("discovery/v1.EndpointSlice", "ports"),
        text("Endpoints", "Addresses of the endpoints.").of("discovery/v1.EndpointSlice", "endpoints"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    const MOST: usize = 3;
    let port = |port: &Value| match port.int_at(&["port"]) {
        Some(number) => number.to_string(),
        None => port.str_at(&["name"]).unwrap_or("*").to_owned(),
    };
    let ports: Vec<String> = object.items_at(&["ports"]).iter().map(port).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let endpoints = object.items_at(&["endpoints"]).iter();
    let addresses: Vec<&str> =
        endpoints.flat_map(|e| e.items_at(&["addresses"])).filter_map(Value::as_str).collect();
    cells![
        name(object),
        str_at(object, &["addressType"]),
        first_few(&ports, MOST),
        first_few(&addresses, MOST),
        age(object, context),
    ]
}

const TOPOLOGY: &str = "deprecatedTopology";
const HOST: &str = "kubernetes.io/hostname";

/// Only versions before v1 could create endpoints with a topology. Returns the host names that were in it, by endpoint.
fn drop_topology(object: &mut Value) -> Vec<Option<Value>> {
    let Some(object) = object.as_object_mut() else { return Vec::new() };
    items(object, "endpoints").map(|endpoint| endpoint.remove(TOPOLOGY)?.remove(&[HOST])).collect()
}

/// Changed endpoints lose their topology. Those of old slices keep the node that was named only there.
fn prepare_update(object: &mut Value, old: &Value, _: &Request<'_>) {
    if same(object, old, &["endpoints"]) {
        return;
    }
    let hosts = drop_topology(object);
    let known: HashSet<&str> = old
        .items_at(&["endpoints"])
        .iter()
        .filter_map(|endpoint| endpoint.str_at(&[TOPOLOGY, HOST]))
        .collect();
    let Some(object) = object.as_object_mut() else { return };
    for (endpoint, host) in items(object, "endpoints").zip(hosts) {
        let Some(host) = host.filter(|host| host.as_str().is_some_and(|name| known.contains(name))) else {
            continue;
        };
        if endpoint.get("nodeName").is_none() {
            endpoint.insert("nodeName", host);
        }
    }
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for port in items(object, "ports") {
        fill_absent(port, "name", "");
        fill_absent(port, "protocol", "TCP");
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn changed_endpoints_lose_their_topology_but_not_the_node_in_it() {
        let request = Request { now: jiff::Timestamp::UNIX_EPOCH, user: None };
        let endpoint = |address: &str, host: &str| value!({"addresses": [address], "deprecatedTopology": {"kubernetes.io/hostname": host, "zone": "z"}});
        let slice = |endpoints: Vec<Value>| value!({"endpoints": (Value::Array(endpoints))});
        let old = slice(vec![endpoint("192.0.2.1", "n1")]);
        let prepared = |mut new: Value| {
            prepare_update(&mut new, &old, &request);
            new
        };
        assert_eq!(prepared(old.clone()), old);
        let new = prepared(slice(vec![endpoint("192.0.2.1", "n1"), endpoint("192.0.2.2", "elsewhere")]));
        let expected = value!({"endpoints": [
            {"addresses": ["192.0.2.1"], "nodeName": "n1"},
            {"addresses": ["192.0.2.2"]},
        ]});
        assert_eq!(new, expected);
    }
}
