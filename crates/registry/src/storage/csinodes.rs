//! CSI nodes: the drivers of a node.

use std::collections::HashMap;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, names};

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name};
use crate::validation::csi::validate_csi_driver_name;
use crate::validation::fields::IMMUTABLE;
use crate::validation::internal_form;
use crate::validation::number::non_negative;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csinodes",
    prefix_on_update: true,
    storage_prefix: "csinodes",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate,
    validate_update,
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["spec", "drivers"]), age(object, context)]
}

const SPEC: Field<'static> = Field::new("spec");
const DRIVERS: &[&str] = &["spec", "drivers"];

fn validate(node: &Value, errors: &mut ErrorList) {
    const MOST_ID: usize = 256;
    let (drivers, at) = (node.items_at(DRIVERS), SPEC.child("drivers"));
    let repeats = Repeats::of(drivers, |item| text(item, "name"));
    for (i, driver) in drivers.iter().enumerate() {
        let (at, driver_name, id) = (at.index(i), text(driver, "name"), text(driver, "nodeID"));
        validate_csi_driver_name(driver_name, &at.child("name"), errors);
        match id.len() {
            0 => errors.required(at.child("nodeID"), ""),
            length if length > MOST_ID => {
                let why = format!("must be {MOST_ID} characters or less");
                errors.invalid(at.child("nodeID"), &Value::from(id), why);
            }
            _ => {}
        }
        let most = driver.int_at(&["allocatable", "count"]).unwrap_or(0);
        let allocatable = at.child("allocatable");
        non_negative(most, &allocatable.child("count"), errors);
        if repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(driver_name));
        }
        validate_topology_keys(list(driver, "topologyKeys"), &at, errors);
    }
}

fn validate_topology_keys(keys: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(keys, ByContent);
    for (i, key) in keys.iter().enumerate() {
        let label = key.as_str().unwrap_or_default();
        if label.is_empty() {
            errors.required(at, "");
        }
        if repeats.at(i) {
            errors.duplicate(at, key);
        }
        complain(at, label, names::qualified_name(label), errors);
    }
}

/// Drivers may be added and removed; an existing one is immutable, but for its number of volumes.
fn validate_update(node: &Value, old: &Value, errors: &mut ErrorList) {
    validate(node, errors);
    let shown = |driver: &Value| {
        let mut driver = driver.clone();
        driver.remove(&["allocatable"]);
        internal_form::compact("CSINodeDriver", &driver)
    };
    let mut by_name: HashMap<&str, Vec<String>> = HashMap::new();
    for driver in node.items_at(DRIVERS) {
        by_name.entry(text(driver, "name")).or_default().push(shown(driver));
    }
    // Duplicate names are already refused: of equal drivers one is enough.
    by_name.values_mut().for_each(Vec::dedup);
    for before in old.items_at(DRIVERS) {
        let Some(drivers) = by_name.get(text(before, "name")).filter(|_| !errors.is_full()) else { continue };
        let before = shown(before);
        // An empty list of keys is the same as none.
        let unified = |driver: &str| driver.replace("\"TopologyKeys\":[]", "\"TopologyKeys\":null");
        for driver in drivers.iter().filter(|driver| unified(driver) != unified(&before)) {
            errors.invalid_shown(SPEC.child("drivers"), driver, IMMUTABLE);
        }
    }
}
