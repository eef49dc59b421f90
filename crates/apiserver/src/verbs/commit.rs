//! Writing objects to the store and removing them, each in one transaction with its allocations.
//!
//! A transaction has one revision, and a client cannot resume a watch between two events of one revision. So no transaction
//! writes two objects of a resource: further allocations are made before it and released after it, each in its own
//! transaction.

use std::any::Any;
use std::sync::Arc;

use corten_api::{Value, encoded};
use corten_store::{Entry, Error as StoreError, Expect, NewValue, Op, Txn};

use super::write::RACE_RETRIES;
use crate::allocation;
use crate::cache::Cache;
use crate::call::Call;
use crate::object::{Object, Projection, Written};

/// The operations that are committed with an object.
#[derive(Default)]
pub(crate) struct Companions {
    /// In the same transaction.
    pub(crate) ops: Vec<Op>,
    /// Creations that are committed before, each by itself. The transaction requires that they are unchanged; if it fails,
    /// they are removed.
    pub(crate) before: Vec<Op>,
    /// Deletions that are committed after it, each by itself.
    pub(crate) after: Vec<Op>,
    /// Guards that are held until the transaction has ended.
    pub(crate) held: Vec<Box<dyn Any + Send>>,
}

/// True if a write failed because of a companion rather than the object itself: then the allocation is decided again.
pub(super) fn is_companion_conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict { op, .. } if *op > 0)
}

/// Removes an object if it is unchanged, and releases its allocations.
pub(crate) async fn remove(call: &Call, current: &Object) -> Result<(), StoreError> {
    let (key, expect) = (current.key.clone(), Expect::ModRevision(current.revision));
    let op = Op::Delete { key, expect };
    // Only releasing allocations can conflict with another write.
    let retries = if allocation::concerns(call) { RACE_RETRIES } else { 0 };
    for _ in 0..retries {
        match commit(call, op.clone(), allocation::release(call, current).await).await {
            Err(error) if is_companion_conflict(&error) => {}
            outcome => return outcome.map(drop),
        }
    }
    commit(call, op, allocation::release(call, current).await).await.map(drop)
}

/// Writes the last state of an object, which watchers see, and then removes the object. Returns its last state, or the
/// conflict of the removal with another write of the marked object, which then is still there.
pub(super) async fn mark_and_remove(
    call: &Call,
    cache: &Cache,
    current: &Object,
    last: Value,
) -> Result<Arc<Entry>, StoreError> {
    let marked = put(call, cache, current.key.clone(), Expect::ModRevision(current.revision), last).await?;
    let (key, expect) = (marked.key.clone(), Expect::ModRevision(marked.mod_revision));
    match call.backend.store.commit(Op::Delete { key, expect }.into()).await {
        // Another client has removed it, which it may as soon as it is marked.
        Ok(_) | Err(StoreError::Conflict { current: None, .. }) => Ok(marked),
        Err(error) => Err(error),
    }
}

/// Writes an object in its stored form.
pub(crate) async fn put(
    call: &Call,
    cache: &Cache,
    key: Arc<str>,
    expect: Expect,
    object: Value,
) -> Result<Arc<Entry>, StoreError> {
    put_with(call, cache, key, expect, object, Companions::default()).await
}

/// Writes an object in its stored form and its companions.
pub(super) async fn put_with(
    call: &Call,
    cache: &Cache,
    key: Arc<str>,
    expect: Expect,
    object: Value,
    companions: Companions,
) -> Result<Arc<Entry>, StoreError> {
    let mut op = put_op(cache, key, expect, object);
    if let (Some(ttl), Op::Put { lease, .. }) = (cache.form.rules.ttl, &mut op) {
        *lease = Some(call.backend.event_leases.lease(&call.backend.store, ttl).await?);
    }
    commit(call, op, companions).await?.ok_or(StoreError::Closed)
}

/// Writes a new custom resource, if its definition still accepts objects in the same transaction. `None` if it does not.
pub(super) async fn put_custom(
    call: &Call,
    cache: &Cache,
    key: Arc<str>,
    object: Value,
) -> Option<Result<Arc<Entry>, StoreError>> {
    let (group, resource) = (call.served.group(), call.served.name());
    let op = put_op(cache, key, Expect::Absent, object);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let check = call.backend.catalog.definitions.check_accepts(group, resource)?;
        let companions = Companions { ops: vec![check], ..Companions::default() };
        match commit(call, op.clone(), companions).await {
            // The definition changed, in its status for instance.
            Err(error) if is_companion_conflict(&error) && attempts < RACE_RETRIES => {}
            outcome => return Some(outcome.and_then(|entry| entry.ok_or(StoreError::Closed))),
        }
    }
}

/// The write of an object without a lease.
pub(crate) fn put_op(cache: &Cache, key: Arc<str>, expect: Expect, object: Value) -> Op {
    Op::Put { key, expect, value: new_value(cache, object), lease: None }
}

/// The store value of an object in its stored form.
pub(crate) fn new_value(cache: &Cache, object: Value) -> NewValue {
    let text = encoded::encode(&object, &cache.form.kind, &cache.form.api_version);
    let projection = Arc::new(Projection::of(&object, &cache.form));
    let written = Written {
        form: cache.form.id,
        revision_at: u32::try_from(text.revision_at).unwrap_or_default(),
        projection,
        tree: cache.written_tree(object),
    };
    NewValue { bytes: text.bytes, revision_at: Some(text.revision_at), note: Some(Arc::new(written)) }
}

async fn commit(call: &Call, op: Op, companions: Companions) -> Result<Option<Arc<Entry>>, StoreError> {
    let Companions { ops, before, after, held } = companions;
    let store = &call.backend.store;
    let mut all = Vec::with_capacity(1 + ops.len() + before.len());
    all.push(op);
    all.extend(ops);
    let mut created = Vec::new();
    let mut outcome = Ok(());
    for op in before {
        match store.commit(op.into()).await {
            Ok(committed) => {
                created.extend(committed.entries.into_iter().flatten());
            }
            Err(error) => {
                outcome = Err(of_companion(error));
                break;
            }
        }
    }
    let unchanged = |entry: &Arc<Entry>| (entry.key.clone(), Expect::ModRevision(entry.mod_revision));
    all.extend(created.iter().map(unchanged).map(|(key, expect)| Op::Check { key, expect }));
    let committed = match outcome {
        Ok(()) => store.commit(Txn { ops: all }).await,
        Err(error) => Err(error),
    };
    let created = created.iter().map(unchanged).map(|(key, expect)| Op::Delete { key, expect });
    let obsolete = if committed.is_ok() { after } else { created.collect() };
    for op in obsolete {
        if let Err(err) = store.commit(op.into()).await {
            tracing::warn!(
                err = &err as &dyn std::error::Error,
                "cannot release allocation; it is repaired at the next start"
            );
        }
    }
    drop(held);
    Ok(committed?.entries.into_iter().next().flatten())
}

/// The error of an operation that was committed before the transaction it belongs to.
fn of_companion(error: StoreError) -> StoreError {
    match error {
        StoreError::Conflict { current, .. } => StoreError::Conflict { op: 1, current },
        error => error,
    }
}
