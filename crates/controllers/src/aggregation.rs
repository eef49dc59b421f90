//! ClusterRole aggregation: an aggregated role has the rules of all the roles that its `aggregationRule` selects.
//!
//! Watches cluster roles. Writes the rules of aggregated roles, and nothing else of them.

use std::sync::Arc;

use corten_api::Value;
use corten_api::selector::LabelSelector;
use corten_client::{Caches, Change, Key, Object, Patch, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

const NAME: &str = "clusterrole-aggregation-controller";

pub(crate) struct ClusterRoleAggregation;

/// The state of one role.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist or does not aggregate.
    role: Option<Value>,
    /// The selected roles, selector by selector, in order of name.
    gathered: Vec<Value>,
}

impl Controller for ClusterRoleAggregation {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch { kind: &kinds::CLUSTER_ROLES, keys: gatherers }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let roles = caches.of(&kinds::CLUSTER_ROLES);
        let Some(role) = roles.get(key).map(|role| role.tree()).filter(gathers) else {
            return World::default();
        };
        let mut gathered = Vec::new();
        for selector in selectors(&role) {
            let selected = roles.select("", &selector);
            gathered.extend(selected.iter().filter(|other| other.key != *key).map(|other| other.tree()));
        }
        World { role: Some(role), gathered }
    }

    fn plan(&self, key: &Key, world: &World, _: Timestamp) -> Plan {
        let Some(role) = &world.role else { return Plan::done() };
        let mut rules: Vec<Value> = Vec::new();
        for rule in world.gathered.iter().flat_map(|other| other.items_at(&["rules"])) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        if role.items_at(&["rules"]) == rules {
            return Plan::done();
        }
        let mut object = kinds::CLUSTER_ROLES.new_object("", &key.name);
        object.set(&["rules"], rules);
        let patch = Patch::Apply { manager: NAME, force: true, object };
        let kind = &kinds::CLUSTER_ROLES;
        Plan::done().then(Action::Patch { kind, key: key.clone(), patch, subresource: "" })
    }
}

/// The changed role, and every aggregated role: it may select the changed one now, or may have selected it before.
fn gatherers(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    keys.push(change.object().key.clone());
    let selected = |gatherer: &Value| {
        selectors(gatherer).iter().any(|selector| change.states().any(|role| role.is_selected_by(selector)))
    };
    let roles = caches.of(&kinds::CLUSTER_ROLES).list("");
    let concerned = |role: &&Arc<Object>| {
        let role = role.tree();
        gathers(&role) && selected(&role)
    };
    keys.extend(roles.iter().filter(concerned).map(|role| role.key.clone()));
}

fn gathers(role: &Value) -> bool {
    role.get("aggregationRule").is_some()
}

fn selectors(role: &Value) -> Vec<LabelSelector> {
    let selectors = role.items_at(&["aggregationRule", "clusterRoleSelectors"]);
    selectors.iter().filter_map(|selector| LabelSelector::from_object(Some(selector)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    fn role(rules: Value) -> Value {
        value!({ "metadata": { "name": "all" }, "rules": rules })
    }

    fn rules(plan: &Plan) -> Option<Value> {
        plan.actions().next().map(|action| match action {
            Action::Patch { patch: Patch::Apply { object, .. }, .. } => {
                object.get("rules").cloned().unwrap_or_default()
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn rules_are_gathered_once_and_in_order() {
        let rule = |verb: &'static str| value!({ "verbs": [verb] });
        let list = |verbs: &[&'static str]| Value::Array(verbs.iter().map(|verb| rule(verb)).collect());
        for (case, has, gathered, wanted) in [
            (
                "nothing yet",
                list(&[]),
                vec![list(&["get", "list"]), list(&["watch"])],
                Some(list(&["get", "list", "watch"])),
            ),
            ("twice the same", list(&[]), vec![list(&["get"]), list(&["get"])], Some(list(&["get"]))),
            ("as it should be", list(&["get"]), vec![list(&["get"])], None),
            ("another order", list(&["a", "b"]), vec![list(&["b", "a"])], Some(list(&["b", "a"]))),
            ("too many", list(&["a", "b"]), vec![list(&["a"])], Some(list(&["a"]))),
            ("none left", list(&["a"]), Vec::new(), Some(list(&[]))),
        ] {
            let world = World { role: Some(role(has)), gathered: gathered.into_iter().map(role).collect() };
            let plan = ClusterRoleAggregation.plan(&Key::new("", "all"), &world, Timestamp::UNIX_EPOCH);
            assert_eq!(rules(&plan), wanted, "{case}");
        }
        let plan =
            ClusterRoleAggregation.plan(&Key::new("", "all"), &World::default(), Timestamp::UNIX_EPOCH);
        assert!(plan.is_done());
    }
}
