//! Network policies: allowed traffic of pods.

mod validate;

use corten_api::{Value, value};

use crate::defaults::{fill_absent, is_zero, items, made};
use crate::rules::{Generation, RowContext, Rules};
use crate::selector::selector_cell;
use crate::table::{AGE, NAME, age, cells, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    storage_prefix: "networkpolicies",
    generation: Generation::SPEC,
    default,
    validate_create: validate::create,
    validate_update: validate::update,
    warnings: |object, _| validate::warnings(object),
    columns: &[
        NAME,
        text("Pod-Selector", "Labels of the pods it is for.")
            .of("networking/v1.NetworkPolicySpec", "podSelector"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), selector_cell(object.at(&["spec", "podSelector"])), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let spec = made(object, "spec");
    if is_zero(spec, "policyTypes") {
        let types = if is_zero(spec, "egress") { value!(["Ingress"]) } else { value!(["Ingress", "Egress"]) };
        spec.insert("policyTypes", types);
    }
    for direction in ["ingress", "egress"] {
        for port in items(spec, direction).flat_map(|rule| items(rule, "ports")) {
            fill_absent(port, "protocol", "TCP");
        }
    }
}
