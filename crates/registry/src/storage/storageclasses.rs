//! Storage classes. In a list, the effective default is marked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Str, Value, names};

use crate::defaults::fill_absent;
use crate::rules::{Listing, RowContext, Rules};
use crate::storage::parameters::{validate_parameters, validate_provisioner};
use crate::table::{AGE, NAME, age, cells, field, str_at, text, time_at};
use crate::validation::fields::{any_of, immutable_unshown, one_of};
use crate::validation::node_labels::deprecation;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "storageclasses",
    prefix_on_update: true,
    storage_prefix: "storageclasses",
    default,
    validate_create: validate,
    validate_update,
    warnings: |class, _| warnings(class),
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Provisioner", "Who makes the volumes.").of("storage/v1.StorageClass", "provisioner"),
        text("ReclaimPolicy", "What becomes of a volume when its claim goes.")
            .of("storage/v1.StorageClass", "reclaimPolicy"),
        text("VolumeBindingMode", "When a claim is bound.")
            .of("storage/v1.StorageClass", "volumeBindingMode"),
        text("AllowVolumeExpansion", "Whether claims may grow.")
            .of("storage/v1.StorageClass", "allowVolumeExpansion"),
        AGE,
    ],
    row,
    listing: Listing::Marked(effective_default),
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let mut shown = str_at(object, &["metadata", "name"]).to_owned();
    if context.marked == Some(shown.as_str()) {
        shown.push_str(" (default)");
    }
    cells![
        shown,
        str_at(object, &["provisioner"]),
        object.str_at(&["reclaimPolicy"]).unwrap_or("Delete"),
        object.str_at(&["volumeBindingMode"]).unwrap_or("Immediate"),
        object.bool_at(&["allowVolumeExpansion"]).unwrap_or(false),
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_absent(object, "reclaimPolicy", "Delete");
    fill_absent(object, "volumeBindingMode", "Immediate");
}

fn validate(class: &Value, errors: &mut ErrorList) {
    validate_provisioner(str_at(class, &["provisioner"]), &Field::new("provisioner"), errors);
    validate_parameters(class, &Field::new("parameters"), errors);
    if !str_at(class, &["reclaimPolicy"]).is_empty() {
        any_of(class, "reclaimPolicy", &["Delete", "Retain"], &Field::ROOT, errors);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    match class.str_at(&["volumeBindingMode"]) {
        Some(_) => any_of(class, "volumeBindingMode", &modes, &Field::ROOT, errors),
        None => one_of(class, "volumeBindingMode", &modes, &Field::ROOT, errors),
    }
    validate_topologies(list(class, "allowedTopologies"), errors);
}

fn validate_update(class: &Value, old: &Value, errors: &mut ErrorList) {
    validate(class, errors);
    for key in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        immutable_unshown(class, old, key, &Field::ROOT, errors);
    }
}

const TOPOLOGIES: Field<'static> = Field::new("allowedTopologies");
const EXPRESSIONS: &str = "matchLabelExpressions";

fn validate_topologies(terms: &[Value], errors: &mut ErrorList) {
    let mut earlier: HashMap<Topology<'_>, usize> = HashMap::new();
    for (i, term) in terms.iter().enumerate() {
        let term_at = TOPOLOGIES.index(i);
        let (at, expressions) = (term_at.child(EXPRESSIONS), list(term, EXPRESSIONS));
        let repeats = Repeats::of(expressions, |item| str_at(item, &["key"]));
        for (i, expression) in expressions.iter().enumerate() {
            validate_expression(expression, &at.index(i), errors);
            let key = str_at(expression, &["key"]);
            if repeats.at(i) {
                errors.duplicate(at.index(i).child("key"), &Value::from(key));
            }
        }
        let topology = topology(expressions);
        // An empty term is compared with those that have not been visited yet, which are as many
        // as there are terms.
        let unseen = if topology.is_empty() { terms.len() } else { 0 };
        let seen = earlier.entry(topology).or_default();
        for _ in 0..unseen + *seen {
            if errors.is_full() {
                break;
            }
            errors.duplicate(at, &Value::from(""));
        }
        *seen += 1;
    }
}

/// The selection of a term, in any order.
type Topology<'v> = BTreeMap<&'v str, BTreeSet<&'v str>>;

fn topology(expressions: &[Value]) -> Topology<'_> {
    let values = |expression| list(expression, "values").iter().filter_map(Value::as_str).collect();
    expressions.iter().map(|expression| (str_at(expression, &["key"]), values(expression))).collect()
}

fn validate_expression(expression: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (values, values_at) = (list(expression, "values"), at.child("values"));
    if values.is_empty() {
        errors.required(values_at, "");
    }
    let repeats = Repeats::of(values, ByContent);
    for (i, value) in values.iter().enumerate() {
        if repeats.at(i) {
            errors.duplicate(values_at.index(i), value);
        }
    }
    let key = str_at(expression, &["key"]);
    complain(&at.child("key"), key, names::qualified_name(key), errors);
}

fn warnings(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, term) in list(class, "allowedTopologies").iter().enumerate() {
        let term_at = TOPOLOGIES.index(i);
        let at = term_at.child(EXPRESSIONS);
        for (i, expression) in list(term, EXPRESSIONS).iter().enumerate() {
            if let Some(message) = deprecation(str_at(expression, &["key"])) {
                warnings.push(format!("{}: {message}", at.index(i).child("key")));
            }
        }
    }
    warnings
}

/// Of the classes annotated as default the newest counts, and of equally new ones the first by name.
fn effective_default(classes: &[Value]) -> Option<Str> {
    let annotated = |class: &&Value| {
        let prefixes = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"];
        prefixes.iter().any(|prefix| {
            let key = format!("{prefix}/is-default-class");
            class.str_at(&["metadata", "annotations", &key]) == Some("true")
        })
    };
    let rank = |class: &&Value| {
        (time_at(class, &["metadata", "creationTimestamp"]), Reverse(field(class, &["metadata", "name"])))
    };
    let youngest = classes.iter().filter(annotated).max_by_key(rank);
    youngest.map(|class| field(class, &["metadata", "name"]))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn the_youngest_default_is_marked() {
        let class = |name: &str, created: &str, default: &str| {
            value!({"metadata": {
                "name": name, "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": default},
            }})
        };
        let old = class("a", "2024-01-01T00:00:00Z", "true");
        let young = class("c", "2025-01-01T00:00:00Z", "true");
        let twin = class("b", "2025-01-01T00:00:00Z", "true");
        let other = class("d", "2026-01-01T00:00:00Z", "false");
        assert_eq!(
            effective_default(&[old.clone(), young.clone(), twin, other.clone()]).as_deref(),
            Some("b")
        );
        assert_eq!(effective_default(&[old, young]).as_deref(), Some("c"));
        assert_eq!(effective_default(&[other]), None);
    }
}
