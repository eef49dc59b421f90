//! The history of a workload: one ControllerRevision for each template it had.

use corten_api::{Str, Value, meta, value};
use corten_client::{DeleteOptions, Key, kinds};
use corten_reconcile::Action;

use crate::claims;

/// The label with the revision of a pod.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The data of a revision: the patch that restores it.
pub(crate) fn data(workload: &Value) -> Value {
    let mut template = workload.at(&["spec", "template"]).cloned().unwrap_or_else(Value::object);
    template.set(&["$patch"], "replace");
    value!({"spec": {"template": (template)}})
}

pub(crate) fn number(revision: &Value) -> i64 {
    revision.int_at(&["revision"]).unwrap_or(0)
}

/// The hash of a revision, as the label of pods holds it.
pub(crate) fn hash(revision: &Value) -> &str {
    revision.str_at(&["metadata", "labels", HASH]).unwrap_or_default()
}

/// Oldest first.
pub(crate) fn sort(revisions: &mut [Value]) {
    let created = |r: &Value| r.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned();
    revisions.sort_by_cached_key(|r| (number(r), created(r), meta::name(r).to_owned()));
}

/// The revisions with the current content of the workload, and the others.
pub(crate) fn split(revisions: Vec<Value>, workload: &Value) -> (Vec<Value>, Vec<Value>) {
    let wanted = data(workload);
    revisions.into_iter().partition(|revision| is_same(revision.get("data").unwrap_or(&Value::Null), &wanted))
}

/// True if two contents are equal, also where one spells out empty fields.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    a == b || plain(a) == plain(b)
}

/// A tree without empty fields.
fn plain(tree: &Value) -> Value {
    match tree {
        Value::Object(fields) => {
            let says = |(key, value): &(&Str, &Value)| match value {
                Value::Null => false,
                Value::Object(fields) => !fields.is_empty() || *key != "resources",
                _ => true,
            };
            Value::Object(
                fields.iter().filter(says).map(|(key, value)| (key.clone(), plain(value))).collect(),
            )
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// A new revision of a workload, with its hash in a label.
pub(crate) fn new(workload: &Value, label: &str, hash: &str, number: i64) -> Value {
    let labels = workload.at(&["spec", "template", "metadata", "labels"]);
    let mut labels = labels.cloned().unwrap_or_else(Value::object);
    labels.set(&[label], hash);
    // Names have at most 253 characters, hashes at most ten.
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

/// The oldest revisions beyond the history limit, except those in use.
pub(crate) fn surplus<'a>(
    old: &'a [Value],
    kept: usize,
    is_used: impl Fn(&Value) -> bool + 'a,
) -> impl Iterator<Item = &'a Value> {
    let count = old.len().saturating_sub(kept);
    old.iter().filter(move |revision| !is_used(revision)).take(count)
}
