//! The history of a workload: one ControllerRevision for each template it had.

use corten_api::{Value, meta, value};
use corten_client::{DeleteOptions, Key, kinds};
use corten_reconcile::Action;

use crate::claims;

/// The label that says which revision something is of.
pub(crate) const HASH: &str = "controller-revision-hash";

/// What a revision keeps: the change that brings a workload back to it.
pub(crate) fn data(workload: &Value) -> Value {
    let mut template = workload.at(&["spec", "template"]).cloned().unwrap_or_else(Value::object);
    template.set(&["$patch"], "replace");
    value!({"spec": {"template": (template)}})
}

pub(crate) fn number(revision: &Value) -> i64 {
    revision.int_at(&["revision"]).unwrap_or(0)
}

/// The hash by which pods say that they are of a revision.
pub(crate) fn hash(revision: &Value) -> &str {
    revision.str_at(&["metadata", "labels", HASH]).unwrap_or_default()
}

/// Oldest first.
pub(crate) fn sort(revisions: &mut [Value]) {
    let created = |r: &Value| r.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned();
    revisions.sort_by_cached_key(|r| (number(r), created(r), meta::name(r).to_owned()));
}

/// Those that have what the workload wants now, and the others.
pub(crate) fn split(revisions: Vec<Value>, workload: &Value) -> (Vec<Value>, Vec<Value>) {
    let wanted = data(workload);
    revisions.into_iter().partition(|revision| revision.get("data") == Some(&wanted))
}

/// A new revision of a workload.
pub(crate) fn new(workload: &Value, hash: &str, number: i64) -> Value {
    let labels = workload.at(&["spec", "template", "metadata", "labels"]);
    let mut labels = labels.cloned().unwrap_or_else(Value::object);
    labels.set(&[HASH], hash);
    // Names are at most 253 long, hashes at most ten.
    let name = meta::name(workload);
    let name = name.get(..223).unwrap_or(name);
    let mut revision =
        kinds::CONTROLLER_REVISIONS.new_object(meta::namespace(workload), &format!("{name}-{hash}"));
    revision.set(&["metadata", "labels"], labels);
    if let Some(annotations) = workload.at(&["metadata", "annotations"]) {
        revision.set(&["metadata", "annotations"], annotations.clone());
    }
    revision.set(&["metadata", "ownerReferences"], vec![claims::reference(workload)]);
    revision.set(&["data"], data(workload));
    revision.set(&["revision"], number);
    revision
}

pub(crate) fn delete(revision: &Value) -> Action {
    let options = DeleteOptions { uid: Some(meta::uid(revision).into()), ..DeleteOptions::default() };
    Action::Delete { kind: &kinds::CONTROLLER_REVISIONS, key: Key::of(revision), options }
}

/// The oldest revisions beyond how many are kept, except those that are still in use.
pub(crate) fn surplus<'a>(
    old: &'a [Value],
    kept: usize,
    is_used: impl Fn(&Value) -> bool + 'a,
) -> impl Iterator<Item = &'a Value> {
    let count = old.len().saturating_sub(kept);
    old.iter().filter(move |revision| !is_used(revision)).take(count)
}
