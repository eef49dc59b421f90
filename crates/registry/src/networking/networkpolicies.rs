//! Network policies: which traffic pods may take part in.

use corten_api::Value;

use crate::rules::{Generation, RowContext, Rules};
use crate::selector::selector_cell;
use crate::table::{AGE, NAME, age, cells, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    storage_prefix: "networkpolicies",
    generation: Generation::SPEC,
    columns: &[NAME, text("Pod-Selector", "Labels of the pods it is for."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), selector_cell(object.at(&["spec", "podSelector"])), age(object, context)]
}
