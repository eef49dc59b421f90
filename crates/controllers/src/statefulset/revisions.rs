//! The history of a stateful set: the current revision of its pods, and the update revision.

use std::sync::Arc;

use corten_api::{Value, meta};
use corten_client::{Object, kinds};
use corten_reconcile::Action;

use crate::{hashes, history};

/// The label of a revision's hash.
const LABEL: &str = "controller.kubernetes.io/hash";

#[derive(Debug)]
pub(super) struct Revisions {
    /// Oldest first.
    known: Vec<Value>,
    /// The revision of the pods that are not to be updated.
    pub(super) current: Value,
    /// The revision of the set's template.
    pub(super) update: Value,
    pub(super) is_new: bool,
    /// The action that makes the update revision the newest.
    pub(super) change: Option<Action>,
}

impl Revisions {
    pub(super) fn of(set: &Value, owned: &[Arc<Object>]) -> Revisions {
        let mut known: Vec<Value> = owned.iter().map(|revision| revision.tree()).collect();
        history::sort(&mut known);
        let next = known.last().map_or(0, history::number) + 1;
        let wanted = history::data(set);
        let is_wanted =
            |revision: &Value| revision.get("data").is_some_and(|data| history::is_same(data, &wanted));
        let kind = &kinds::CONTROLLER_REVISIONS;
        let (update, is_new, change) = match known.iter().rposition(is_wanted) {
            Some(at) if at + 1 == known.len() => (known[at].clone(), false, None),
            Some(at) => {
                let mut object = known[at].clone();
                object.set(&["revision"], next);
                (object.clone(), false, Some(Action::Update { kind, object, subresource: "" }))
            }
            None => {
                let hash = hashes::of(&wanted, Some(collisions(set)));
                let object = history::new(set, LABEL, &hash, next);
                (object.clone(), true, Some(Action::Create { kind, object }))
            }
        };
        let name = set.str_at(&["status", "currentRevision"]);
        let current = known.iter().find(|revision| Some(meta::name(revision)) == name);
        let current = current.unwrap_or(&update).clone();
        Revisions { known, current, update, is_new, change }
    }

    /// The oldest unused revisions beyond the history limit.
    pub(super) fn surplus<'a>(
        &'a self,
        set: &Value,
        pods: &'a [Arc<Object>],
    ) -> impl Iterator<Item = &'a Value> {
        let is_old = |revision: &&Value| {
            let name = meta::name(revision);
            let is_used = pods.iter().any(|pod| super::identity::revision(pod) == name);
            !is_used && name != meta::name(&self.current) && name != meta::name(&self.update)
        };
        let kept = set.int_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        let count = self.known.iter().filter(is_old).count();
        let surplus = usize::try_from(kept).map_or(0, |kept| count.saturating_sub(kept));
        self.known.iter().filter(is_old).take(surplus)
    }
}

/// The number of hash collisions.
pub(super) fn collisions(set: &Value) -> i64 {
    set.int_at(&["status", "collisionCount"]).unwrap_or(0)
}

/// The template of a revision.
pub(super) fn template(revision: &Value) -> Value {
    let mut template = revision.at(&["data", "spec", "template"]).cloned().unwrap_or_else(Value::object);
    template.remove(&["$patch"]);
    template
}
