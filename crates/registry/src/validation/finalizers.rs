//! Warnings about finalizers of custom resources, which may have any name.

use std::collections::BTreeSet;

use corten_api::{Value, meta, names};

use crate::validate::is_finalizer;

/// Warnings about the finalizers that a write adds.
pub(crate) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before: BTreeSet<&str> = old.into_iter().flat_map(meta::finalizers).collect();
    let added: BTreeSet<&str> = meta::finalizers(object).filter(|name| !before.contains(name)).collect();
    added.into_iter().flat_map(warnings_of).collect()
}

fn warnings_of(name: &str) -> Vec<String> {
    let mut found = names::qualified_name(name);
    if !is_finalizer(name) {
        let how = if name.contains('.') { " including a path (/)" } else { "" };
        found.push(format!(
            "prefer a domain-qualified finalizer name{how} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    found.into_iter().map(|why| format!("metadata.finalizers: {name:?}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn added_finalizers_are_warned_about() {
        let old = value!({"metadata": {"finalizers": ["old"]}});
        let new =
            value!({"metadata": {"finalizers": ["old", "example.com/a", "orphan", "plain", "example.com"]}});
        let why = "to avoid accidental conflicts with other finalizer writers";
        assert_eq!(
            warnings(&new, Some(&old)),
            [
                format!(
                    "metadata.finalizers: \"example.com\": prefer a domain-qualified finalizer name including a path (/) {why}"
                ),
                format!("metadata.finalizers: \"plain\": prefer a domain-qualified finalizer name {why}"),
            ]
        );
    }
}
