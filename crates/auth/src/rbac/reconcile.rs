//! Reconciliation of bootstrap roles and bindings, which must have at least the expected rules and subjects.
//!
//! Nothing is ever removed: additions of an administrator stay. An object with the annotation `autoupdate: "false"` is not
//! changed at all.

use corten_api::{Map, Value, meta};

use super::covers::uncovered;
use super::policy::AUTO_UPDATE;
use super::rule::{Rule, rules_of};

/// The change of one object.
#[derive(Debug, PartialEq)]
pub enum Change {
    Create(Value),
    Update(Value),
    /// Delete the existing object and create this one: the role of a binding is immutable.
    Recreate(Value),
}

impl Change {
    /// The desired object.
    pub fn object(&self) -> &Value {
        let (Change::Create(object) | Change::Update(object) | Change::Recreate(object)) = self;
        object
    }
}

/// The change that gives a role at least the expected rules.
pub fn reconcile_role(existing: Option<&Value>, expected: &Value) -> Option<Change> {
    let Some(existing) = existing else { return Some(Change::Create(expected.clone())) };
    if is_protected(existing) {
        return None;
    }
    let mut role = existing.clone();
    merge_metadata(&mut role, expected);
    let (held, wanted) = (rules_of(existing), rules_of(expected));
    // If a role is too large to compare, rules that it does not contain literally count as missing.
    let missing = uncovered(&held, &wanted)
        .unwrap_or_else(|_| wanted.iter().filter(|rule| !held.contains(rule)).cloned().collect());
    if !missing.is_empty() {
        let rules = role.make_object().entry("rules").make_array();
        rules.extend(missing.iter().map(Rule::to_value));
    }
    reconcile_aggregation(&mut role, expected);
    (role != *existing).then_some(Change::Update(role))
}

fn reconcile_aggregation(role: &mut Value, expected: &Value) {
    const SELECTORS: [&str; 2] = ["aggregationRule", "clusterRoleSelectors"];
    if expected.get("aggregationRule").is_none() {
        role.remove(&["aggregationRule"]);
        return;
    }
    let known = role.items_at(&SELECTORS).to_vec();
    let missing: Vec<Value> =
        expected.items_at(&SELECTORS).iter().filter(|s| !known.contains(s)).cloned().collect();
    if !missing.is_empty() {
        role.set(&SELECTORS, [known, missing].concat());
    }
}

/// The change that gives a binding at least the expected subjects.
pub fn reconcile_binding(existing: Option<&Value>, expected: &Value) -> Option<Change> {
    let Some(existing) = existing else { return Some(Change::Create(expected.clone())) };
    if is_protected(existing) {
        return None;
    }
    if existing.get("roleRef") != expected.get("roleRef") {
        return Some(Change::Recreate(expected.clone()));
    }
    let mut binding = existing.clone();
    merge_metadata(&mut binding, expected);
    let known = existing.items_at(&["subjects"]);
    let missing: Vec<Value> =
        expected.items_at(&["subjects"]).iter().filter(|s| !known.contains(s)).cloned().collect();
    if !missing.is_empty() {
        binding.set(&["subjects"], [known, &missing].concat());
    }
    (binding != *existing).then_some(Change::Update(binding))
}

fn is_protected(existing: &Value) -> bool {
    existing.str_at(&["metadata", "annotations", AUTO_UPDATE]) == Some("false")
}

/// Adds missing labels and annotations; existing ones are not changed.
fn merge_metadata(object: &mut Value, expected: &Value) {
    for field in ["annotations", "labels"] {
        let wanted = expected.at(&["metadata", field]).and_then(Value::as_object);
        for (key, value) in wanted.into_iter().flat_map(Map::iter) {
            let members = meta::of(object).entry(field).make_object();
            if !members.contains_key(key) {
                members.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    fn role(verbs: &[&str]) -> Value {
        let verbs: Vec<Value> = verbs.iter().map(|v| Value::from(*v)).collect();
        let mut role = value!({
            "metadata": {"name": "r", "annotations": {}, "labels": {"l": "x"}},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}],
        });
        role.set(&["metadata", "annotations", AUTO_UPDATE], "true");
        role
    }

    fn binding(role: &str, subjects: &[&str]) -> Value {
        let subjects: Vec<Value> = subjects
            .iter()
            .map(|s| value!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": (*s)}))
            .collect();
        value!({
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        })
    }

    #[test]
    fn missing_permissions_are_added_and_others_kept() {
        assert_eq!(reconcile_role(None, &role(&["get"])), Some(Change::Create(role(&["get"]))));
        assert_eq!(reconcile_role(Some(&role(&["get"])), &role(&["get"])), None);
        assert_eq!(reconcile_role(Some(&role(&["get", "delete"])), &role(&["get"])), None);
        assert_eq!(reconcile_role(Some(&role(&["*"])), &role(&["get"])), None);
        let Some(Change::Update(new)) = reconcile_role(Some(&role(&["delete"])), &role(&["get"])) else {
            panic!("no update");
        };
        let verbs: Vec<_> = rules_of(&new).into_iter().flat_map(|rule| rule.verbs).collect();
        assert_eq!(verbs, ["delete", "get"]);
    }

    #[test]
    fn protected_objects_are_not_changed() {
        let mut kept = role(&["delete"]);
        kept.set(&["metadata", "annotations", AUTO_UPDATE], "false");
        assert_eq!(reconcile_role(Some(&kept), &role(&["get"])), None);
        let mut kept = binding("a", &[]);
        kept.set(&["metadata", "annotations", AUTO_UPDATE], "false");
        assert_eq!(reconcile_binding(Some(&kept), &binding("b", &["jane"])), None);
    }

    #[test]
    fn missing_labels_are_added_and_existing_values_kept() {
        let mut changed = role(&["get"]);
        changed.set(&["metadata", "labels"], value!({"l": "mine", "own": "y"}));
        assert_eq!(reconcile_role(Some(&changed), &role(&["get"])), None);
        changed.remove(&["metadata", "labels", "l"]);
        let Some(Change::Update(new)) = reconcile_role(Some(&changed), &role(&["get"])) else {
            panic!("no update");
        };
        assert_eq!(new.at(&["metadata", "labels"]), Some(&value!({"l": "x", "own": "y"})));
    }

    #[test]
    fn aggregation_is_restored_or_removed() {
        let selector = value!({"matchLabels": {"a": "true"}});
        let mut gathering = role(&["get"]);
        gathering.set(&["aggregationRule", "clusterRoleSelectors"], vec![selector.clone()]);
        let update = reconcile_role(Some(&role(&["get"])), &gathering);
        assert_eq!(update, Some(Change::Update(gathering.clone())));
        let update = reconcile_role(Some(&gathering), &role(&["get"]));
        assert_eq!(update, Some(Change::Update(role(&["get"]))));
    }

    #[test]
    fn bindings() {
        let jane = binding("a", &["jane"]);
        assert_eq!(reconcile_binding(Some(&jane), &jane), None);
        assert_eq!(reconcile_binding(Some(&binding("a", &["joe", "jane"])), &jane), None);
        let both = binding("a", &["joe", "jane"]);
        assert_eq!(reconcile_binding(Some(&binding("a", &["joe"])), &jane), Some(Change::Update(both)));
        let other = binding("other", &["joe"]);
        assert_eq!(reconcile_binding(Some(&other), &jane), Some(Change::Recreate(jane)));
    }
}
