//! Storage classes. In a list, the one that counts as the default is marked.

use std::cmp::Reverse;

use corten_api::{Str, Value};

use crate::defaults::fill_absent;
use crate::rules::{Listing, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, field, str_at, text, time_at};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "storageclasses",
    storage_prefix: "storageclasses",
    default,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Provisioner", "Who makes the volumes."),
        text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
        text("VolumeBindingMode", "When a claim is bound."),
        text("AllowVolumeExpansion", "Whether claims may grow."),
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

/// Of the classes annotated as the default the youngest counts, and of equally young ones the first by name.
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
