//! CSI storage capacities: the available capacity of a class in a part of the cluster.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::rules::Rules;
use crate::validation::fields::{IMMUTABLE, immutable, part};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::node_labels::selector_warnings;
use crate::validation::resources::{amount, spelled};
use crate::validation::text::{complain, member, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csistoragecapacities",
    prefix_on_update: true,
    storage_prefix: "csistoragecapacities",
    validate_create: |capacity, errors| validate(capacity, LabelSelectorOptions::default(), errors),
    validate_update,
    warnings: |capacity, _| warnings(capacity),
    unconditional_update: false,
    ..Rules::DEFAULT
};

const TOPOLOGY: Field<'static> = Field::new("nodeTopology");

fn validate(capacity: &Value, options: LabelSelectorOptions, errors: &mut ErrorList) {
    validate_label_selector(member(capacity, "nodeTopology"), options, &TOPOLOGY, errors);
    let class = text(capacity, "storageClassName");
    complain(&Field::new("storageClassName"), class, names::dns1123_subdomain(class), errors);
    if let Some(size) = member(capacity, "capacity").filter(|size| amount(size).is_negative()) {
        errors.invalid("capacity", &spelled(size), "must be greater than or equal to 0");
    }
}

/// The class and topology are immutable; the capacity is not.
fn validate_update(capacity: &Value, old: &Value, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    let strict = LabelSelectorOptions::default();
    validate_label_selector(member(old, "nodeTopology"), strict, &TOPOLOGY, &mut found);
    validate(capacity, LabelSelectorOptions { allow_invalid_values: !found.is_empty() }, errors);
    if !same(capacity, old, &["nodeTopology"]) {
        let shown = internal_form::compact("LabelSelector", part(capacity, "nodeTopology"));
        errors.invalid_shown(TOPOLOGY, shown, IMMUTABLE);
    }
    immutable(capacity, old, "storageClassName", &Field::ROOT, errors);
}

fn warnings(capacity: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    selector_warnings(part(capacity, "nodeTopology"), &TOPOLOGY, &mut warnings);
    warnings
}
