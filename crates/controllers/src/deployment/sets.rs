//! The replica sets of a deployment, with its annotations on them: their revision, and the desired and largest size
//! when they were last scaled.

use std::cmp::Ordering;

use corten_api::{Value, meta};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
pub(super) const HASH: &str = "pod-template-hash";
/// Annotations that stay on the deployment or on the replica set.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    ROLLBACK_TO,
];
/// The longest history of revisions.
const MAX_HISTORY: usize = 2000;

/// A replica set, as it is and as it shall be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Set {
    pub(super) was: Option<Value>,
    pub(super) tree: Value,
}

impl Set {
    pub(super) fn known(tree: Value) -> Set {
        Set { was: Some(tree.clone()), tree }
    }

    pub(super) fn new(tree: Value) -> Set {
        Set { was: None, tree }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.was.as_ref() != Some(&self.tree)
    }

    pub(super) fn name(&self) -> &str {
        meta::name(&self.tree)
    }

    pub(super) fn replicas(&self) -> i64 {
        self.tree.int_at(&["spec", "replicas"]).unwrap_or(1)
    }

    pub(super) fn count(&self, field: &str) -> i64 {
        self.tree.int_at(&["status", field]).unwrap_or(0)
    }

    pub(super) fn available(&self) -> i64 {
        self.count("availableReplicas")
    }

    fn created(&self) -> &str {
        // A replica set that is yet to be created is the newest.
        self.tree.str_at(&["metadata", "creationTimestamp"]).unwrap_or("~")
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.tree.str_at(&["metadata", "annotations", key])
    }

    fn annotate(&mut self, key: &str, text: &str) {
        if self.annotation(key) != Some(text) {
            self.tree.set(&["metadata", "annotations", key], text);
        }
    }

    /// Its revision; `None` without one, or if it cannot be parsed.
    pub(super) fn revision(&self) -> Option<i64> {
        self.annotation(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    pub(super) fn revision_text(&self) -> &str {
        self.annotation(REVISION).unwrap_or_default()
    }

    /// The replicas that the deployment desired when it last scaled this replica set.
    pub(super) fn desired(&self) -> Option<i64> {
        number(self.annotation(DESIRED)?)
    }

    /// The largest number of replicas at that time, including the surge.
    pub(super) fn max(&self) -> Option<i64> {
        number(self.annotation(MAX)?)
    }

    /// Records the desired and the largest number of replicas.
    pub(super) fn note_replicas(&mut self, desired: i64, max: i64) {
        self.annotate(DESIRED, &desired.to_string());
        self.annotate(MAX, &max.to_string());
    }

    /// Copies the deployment's annotations.
    pub(super) fn copy_annotations(&mut self, deployment: &Value) {
        let given = deployment.at(&["metadata", "annotations"]).and_then(Value::as_object);
        for (key, text) in given.into_iter().flat_map(|map| map.iter()) {
            if !NOT_COPIED.contains(&key.as_str()) {
                self.annotate(key, text.as_str().unwrap_or_default());
            }
        }
    }

    /// Makes this the newest revision, and adds the former one to the history.
    pub(super) fn raise_revision(&mut self, to: i64) {
        let Some(revision) = self.revision().filter(|revision| *revision < to) else { return };
        let had = self.annotation(REVISION).map(str::to_owned);
        self.annotate(REVISION, &to.to_string());
        if had.is_none() {
            return;
        }
        let mut history: Vec<String> = match self.annotation(REVISION_HISTORY) {
            None | Some("") => Vec::new(),
            Some(text) => text.split(',').map(str::to_owned).collect(),
        };
        history.push(revision.to_string());
        while history.len() > 1 && history.iter().map(|text| text.len() + 1).sum::<usize>() > MAX_HISTORY + 1
        {
            history.remove(0);
        }
        self.annotate(REVISION_HISTORY, &history.join(","));
    }
}

/// A deployment's annotations after a rollback to a replica set.
pub(super) fn annotations_of(deployment: &Value, set: &Set) -> Value {
    let map = |tree: &Value| tree.at(&["metadata", "annotations"]).and_then(Value::as_object).cloned();
    let own =
        map(deployment).unwrap_or_default().into_iter().filter(|(key, _)| NOT_COPIED.contains(&key.as_str()));
    let copied =
        map(&set.tree).unwrap_or_default().into_iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    Value::Object(own.chain(copied).collect())
}

fn number(text: &str) -> Option<i64> {
    text.parse::<u32>().ok().filter(|number| *number <= i32::MAX as u32).map(i64::from)
}

/// Oldest first.
pub(super) fn by_age(a: &Set, b: &Set) -> Ordering {
    a.created().cmp(b.created()).then_with(|| a.name().cmp(b.name()))
}

/// Lowest revision first, those without one before it; by age where equal.
pub(super) fn by_revision(a: &Set, b: &Set) -> Ordering {
    a.revision().cmp(&b.revision()).then_with(|| by_age(a, b))
}

/// A template without the hash label, which only replica sets have.
pub(super) fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    template.remove(&["metadata", "labels", HASH]);
    if template.at(&["metadata", "creationTimestamp"]).is_some_and(Value::is_null) {
        template.remove(&["metadata", "creationTimestamp"]);
    }
    template
}

/// True if a replica set has the template of the deployment.
pub(super) fn has_template_of(set: &Value, deployment: &Value) -> bool {
    let template = |tree: &Value| without_hash(tree.at(&["spec", "template"]).unwrap_or(&Value::Null));
    template(set) == template(deployment)
}
