//! Endpoints: where a service is served, superseded by endpoint slices.

use corten_api::Value;

use crate::defaults::{fill_zero, items};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "endpoints",
    storage_prefix: "services/endpoints",
    default,
    create_on_update: true,
    columns: &[NAME, text("Endpoints", "Addresses and ports that are ready."), AGE],
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
