//! Endpoints: the addresses of a service, superseded by endpoint slices.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::defaults::{fill_zero, items};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, str_at, text as column};
use crate::validation::endpoint::{endpoint_ip, validate_protocols};
use crate::validation::ip::{ip_warning, legacy_ip};
use crate::validation::number::int;
use crate::validation::text::{complain, list, optional, port_number, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "endpoints",
    prefix_on_update: true,
    storage_prefix: "services/endpoints",
    default,
    validate_create: validate,
    validate_update,
    warnings: |endpoints, _| warnings(endpoints),
    create_on_update: true,
    columns: &[
        NAME,
        column("Endpoints", "Addresses and ports that are ready.").of("core/v1.Endpoints", "subsets"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), endpoints(object), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for port in items(object, "subsets").flat_map(|subset| items(subset, "ports")) {
        fill_zero(port, "protocol", "TCP");
    }
}

/// The first few ready addresses, with their ports where there are any.
fn endpoints(object: &Value) -> String {
    const MOST: usize = 3;
    let subsets = object.items_at(&["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || subset.items_at(&["addresses"]).iter().map(|a| str_at(a, &["ip"]));
        let ports = subset.items_at(&["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = int_at(port, &["port"]);
            all.extend(
                addresses().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }),
            );
        }
    }
    if all.len() <= MOST {
        return all.join(",");
    }
    format!("{} + {} more...", all[..MOST].join(","), all.len() - MOST)
}

const SUBSETS: Field<'static> = Field::new("subsets");

fn validate(object: &Value, errors: &mut ErrorList) {
    for (i, subset) in list(object, "subsets").iter().enumerate() {
        let at = SUBSETS.index(i);
        if each_address(subset).next().is_none() {
            errors.required(at, "must specify `addresses` or `notReadyAddresses`");
        }
        for (key, i, address) in each_address(subset) {
            validate_address(address, &at.child(key).index(i), errors);
        }
        let ports = list(subset, "ports");
        for (i, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &at.child("ports").index(i), errors);
        }
    }
}

/// Stored addresses are not validated again.
fn validate_update(object: &Value, old: &Value, errors: &mut ErrorList) {
    if list(object, "subsets") != list(old, "subsets") {
        validate(object, errors);
    }
}

/// The addresses of both lists, each with its list and its index.
fn each_address(subset: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    let of = |key| list(subset, key).iter().enumerate().map(move |(i, address)| (key, i, address));
    ["addresses", "notReadyAddresses"].into_iter().flat_map(of)
}

fn validate_address(address: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (ip, ip_at) = (text(address, "ip"), at.child("ip"));
    legacy_ip(ip, &ip_at, errors);
    optional(text(address, "hostname"), names::dns1123_label, &at.child("hostname"), errors);
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        complain(&at.child("nodeName"), node, names::dns1123_subdomain(node), errors);
    }
    endpoint_ip(ip, &ip_at, errors);
}

fn validate_port(port: &Value, needs_name: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(port, "name");
    if needs_name && name.is_empty() {
        errors.required(at.child("name"), "");
    }
    optional(name, names::dns1123_label, &at.child("name"), errors);
    port_number(int(port, "port"), &at.child("port"), errors);
    validate_protocols(port, at, errors);
}

/// The controller writes addresses in canonical form.
fn warnings(object: &Value) -> Vec<String> {
    let by = object.str_at(&["metadata", "labels", "endpoints.kubernetes.io/managed-by"]);
    if by == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (i, subset) in list(object, "subsets").iter().enumerate() {
        let at = SUBSETS.index(i);
        for (key, i, address) in each_address(subset) {
            let at = at.child(key);
            warnings.extend(ip_warning(text(address, "ip"), &at.index(i).child("ip")));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn stored_values_are_accepted_again() {
        let old = value!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": []}]});
        let complaints = |new: &Value| {
            let mut errors = ErrorList::new();
            validate_update(new, &old, &mut errors);
            errors.0.len()
        };
        assert_eq!(complaints(&old), 0);
        let changed = value!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}, {"ip": "10.0.0.1"}]}]});
        assert_eq!(complaints(&changed), 1);
    }
}
