//! Endpoint slices: parts of a service's endpoints. There is no spec: the generation counts changes of everything but
//! metadata, and of labels.

mod validate;

use corten_api::Value;

use crate::defaults::{fill_absent, items};
use crate::rules::{Generation, RowContext, Rules};
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
    prepare_create: |object, _| drop_topology(object),
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

/// Only versions before v1 could create endpoints with a topology.
fn drop_topology(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for endpoint in items(object, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for port in items(object, "ports") {
        fill_absent(port, "name", "");
        fill_absent(port, "protocol", "TCP");
    }
}
