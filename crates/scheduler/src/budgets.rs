//! Pod disruption budgets: the number of disruptions that each still allows.

use std::collections::BTreeMap;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value};
use corten_client::Key;

use crate::pod::Pod;
use crate::pod::terms::read;

#[derive(Default)]
pub(crate) struct Budgets {
    all: BTreeMap<Key, Budget>,
    version: u64,
}

struct Budget {
    selector: LabelSelector,
    allowed: i64,
    /// Pods whose disruption is already counted.
    disrupted: Vec<Str>,
}

impl Budgets {
    /// Updates or removes a budget.
    pub(crate) fn set(&mut self, key: &Key, object: Option<&Value>) {
        self.version += 1;
        let Some(object) = object else {
            self.all.remove(key);
            return;
        };
        let disrupted = object.at(&["status", "disruptedPods"]).and_then(Value::as_object);
        let budget = Budget {
            selector: read(object.at(&["spec", "selector"])),
            allowed: object.int_at(&["status", "disruptionsAllowed"]).unwrap_or(0),
            disrupted: disrupted.into_iter().flat_map(Map::keys).cloned().collect(),
        };
        self.all.insert(key.clone(), budget);
    }

    /// Increases with every change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// For each of these pods, true if its preemption violates a budget, in this order.
    pub(crate) fn violating<'p>(&self, pods: impl Iterator<Item = &'p Pod>) -> Vec<bool> {
        let mut left: Vec<i64> = self.all.values().map(|budget| budget.allowed).collect();
        let mut violates = |pod: &Pod| {
            let protecting = self.all.iter().zip(&mut left).filter(|((key, budget), _)| {
                key.namespace == pod.key.namespace
                    && !budget.selector.is_everything()
                    && pod.is_selected_by(&budget.selector)
                    && !budget.disrupted.contains(&pod.key.name)
            });
            for (_, left) in protecting {
                *left -= 1;
                if *left < 0 {
                    return true;
                }
            }
            false
        };
        pods.map(|pod| !pod.shape.labels.is_empty() && violates(pod)).collect()
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::pod;

    #[test]
    fn budgets_are_used_up() {
        let mut budgets = Budgets::default();
        let budget = value!({"spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}}});
        budgets.set(&Key::new("default", "web"), Some(&budget));
        let web = |name| pod(name).label("app", "web").build();
        let pods = [web("gone"), web("a"), web("b"), pod("c").build(), web("d")];
        assert_eq!(budgets.violating(pods.iter()), [false, false, true, false, true]);
        budgets.set(&Key::new("default", "web"), None);
        assert_eq!(budgets.violating(pods.iter()), [false; 5]);
    }
}
