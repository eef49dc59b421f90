//! Aggregated cluster roles, whose rules come from other roles selected by labels.

use std::collections::{BTreeMap, HashSet};

use corten_api::selector::LabelSelector;
use corten_api::{ByContent, Value, meta};

/// The rules of an aggregated cluster role: those of every role that it selects, sorted by name, without duplicates.
pub fn aggregated_rules(role: &Value, all: &BTreeMap<String, Value>) -> Option<Vec<Value>> {
    let selectors = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let mut rules: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    for selector in selectors.items_at(&["clusterRoleSelectors"]) {
        // An invalid selector is refused when it is written; it selects nothing.
        let Ok(selector) = LabelSelector::from_object(Some(selector)) else { continue };
        let chosen = all.iter().filter(|(name, _)| *name != meta::name(role));
        for (_, other) in chosen.filter(|(_, other)| selector.matches_object(other)) {
            for rule in other.items_at(&["rules"]) {
                if seen.insert(ByContent(rule)) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

/// Sets the rules of every aggregated role among `roles`, including those that aggregate aggregated roles. Returns the
/// names of the changed ones.
pub fn aggregate_all(roles: &mut BTreeMap<String, Value>) -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    // A later round may aggregate the changes of an earlier one; cycles converge within this many rounds.
    for _ in 0..=roles.len() {
        let stale: Vec<(String, Vec<Value>)> = roles
            .iter()
            .filter_map(|(name, role)| Some((name.clone(), aggregated_rules(role, roles)?)))
            .filter(|(name, rules)| roles.get(name).is_some_and(|role| role.items_at(&["rules"]) != rules))
            .collect();
        if stale.is_empty() {
            break;
        }
        for (name, rules) in stale {
            if let Some(role) = roles.get_mut(&name) {
                role.set(&["rules"], rules);
            }
            if !changed.contains(&name) {
                changed.push(name);
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    fn role(name: &str, label: &str, selects: &str, rules: Value) -> (String, Value) {
        let mut role = value!({"metadata": {"name": name}, "rules": rules});
        role.set(&["metadata", "labels", label], "true");
        if !selects.is_empty() {
            let mut selector = Value::object();
            selector.set(&["matchLabels", selects], "true");
            role.set(&["aggregationRule", "clusterRoleSelectors"], vec![selector]);
        }
        (name.to_owned(), role)
    }

    #[test]
    fn aggregated_roles_aggregate_aggregated_roles() {
        let get = value!({"verbs": ["get"]});
        let put = value!({"verbs": ["update"]});
        let mut roles: BTreeMap<String, Value> = [
            role("admin", "x", "to-admin", Value::Null),
            role("edit", "to-admin", "to-edit", Value::Null),
            role("a", "to-edit", "", Value::Array(vec![get.clone(), put.clone()])),
            role("b", "to-edit", "", Value::Array(vec![get.clone()])),
        ]
        .into();
        assert_eq!(aggregate_all(&mut roles), ["edit", "admin"]);
        assert_eq!(roles["admin"].items_at(&["rules"]), [get, put]);
        assert!(aggregate_all(&mut roles).is_empty());
        assert!(aggregated_rules(&roles["a"], &roles).is_none());
    }
}
