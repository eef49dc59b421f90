//! The mark of a migration that has not ended: a record in its target.
//!
//! Invariant: the record is written before the first object and deleted after the last check, so that no server uses half of a
//! cluster, and a migration that was interrupted continues only into its own target.

use anyhow::{Context, bail};
use corten_store::{Expect, NewValue, Op, Store};
use serde_json::{Value, json};

/// The record's key, which no resource has.
pub(super) const KEY: &str = "/registry/corten.io/migration";

/// Fails if a datastore is the target of a migration that has not ended.
pub(crate) fn check_complete(store: &Store) -> anyhow::Result<()> {
    if let Some(source) = source(store) {
        bail!(
            "the datastore is incomplete: the copy of {source} has not ended; run the same `corten datastore migrate` or \
             `corten backup restore` again"
        );
    }
    Ok(())
}

/// The source of the migration that has not ended, if there is one.
pub(super) fn source(store: &Store) -> Option<String> {
    let record: Value = serde_json::from_slice(&store.get(KEY)?.value).unwrap_or_default();
    Some(record["spec"]["source"].as_str().unwrap_or("an unknown source").to_owned())
}

/// Writes the record.
pub(super) async fn set(store: &Store, source: &str) -> anyhow::Result<()> {
    let record = json!({
        "kind": "Migration", "apiVersion": "corten.io/v1", "metadata": {}, "spec": {"source": source},
    });
    let value = NewValue::from(record.to_string().into_bytes());
    let op = Op::Put { key: KEY.into(), expect: Expect::Any, value, lease: None };
    store.commit(op.into()).await.context("cannot write to the target")?;
    Ok(())
}

/// Deletes the record.
pub(super) async fn clear(store: &Store) -> anyhow::Result<()> {
    let op = Op::Delete { key: KEY.into(), expect: Expect::Any };
    store.commit(op.into()).await.context("cannot write to the target")?;
    Ok(())
}
