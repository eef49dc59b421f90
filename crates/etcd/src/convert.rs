//! The store's types as etcd's messages, and back.

use std::cmp::Ordering;

use corten_etcd_api::errors::{
    COMPACTED, FUTURE_REVISION, KEY_NOT_FOUND, LEASE_EXISTS, LEASE_NOT_FOUND, NO_SPACE, STOPPED,
};
use corten_etcd_api::{
    Compare, CompareResult, CompareTarget, Event, EventType, KeyValue, RangeRequest, SortOrder, SortTarget,
};
use corten_grpc::Status;
use corten_store::{Condition, Entry, Error, LeaseId, Relation, Target};

use crate::keys;

pub(crate) fn key_value(entry: &Entry) -> KeyValue {
    KeyValue { value: entry.value.clone(), ..without_value(entry) }
}

fn without_value(entry: &Entry) -> KeyValue {
    KeyValue {
        key: keys::bytes(&entry.key),
        create_revision: entry.create_revision as i64,
        mod_revision: entry.mod_revision as i64,
        version: entry.version as i64,
        lease: entry.lease.map_or(0, |id| id.0 as i64),
        ..KeyValue::default()
    }
}

pub(crate) fn event(event: &corten_store::Event, with_previous: bool) -> Event {
    let prev_kv = event.previous.as_deref().filter(|_| with_previous).map(key_value);
    match &event.current {
        Some(entry) => Event { kind: EventType::Put, kv: Some(key_value(entry)), prev_kv },
        None => {
            let kv = KeyValue {
                key: keys::bytes(&event.key),
                mod_revision: event.revision as i64,
                ..KeyValue::default()
            };
            Event { kind: EventType::Delete, kv: Some(kv), prev_kv }
        }
    }
}

pub(crate) fn lease(id: i64) -> LeaseId {
    LeaseId(id as u64)
}

/// `None` for a comparison that this version does not know.
pub(crate) fn condition(compare: &Compare) -> Option<Condition> {
    let target = match compare.target {
        CompareTarget::Version => Target::Version(compare.version),
        CompareTarget::Create => Target::Created(compare.create_revision),
        CompareTarget::Mod => Target::Modified(compare.mod_revision),
        CompareTarget::Value => Target::Value(compare.value.clone()),
        CompareTarget::Lease => Target::Lease(compare.lease),
        CompareTarget::Other(_) => return None,
    };
    let relation = match compare.result {
        CompareResult::Equal => Relation::Equal,
        CompareResult::NotEqual => Relation::NotEqual,
        CompareResult::Greater => Relation::Greater,
        CompareResult::Less => Relation::Less,
        CompareResult::Other(_) => return None,
    };
    Some(Condition { keys: keys::keys(&compare.key, &compare.range_end), target, relation })
}

pub(crate) fn status(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => COMPACTED.into(),
        Error::Future { .. } => FUTURE_REVISION.into(),
        Error::UnknownLease => LEASE_NOT_FOUND.into(),
        Error::LeaseExists => LEASE_EXISTS.into(),
        Error::KeyNotFound => KEY_NOT_FOUND.into(),
        Error::NoSpace(_) => NO_SPACE.into(),
        Error::Closed => STOPPED.into(),
        error => Status::internal(format!("etcdserver: {error}")),
    }
}

/// True if entries in key order need no sorting.
pub(crate) fn is_default_order(request: &RangeRequest) -> bool {
    // Without an order, any other target than the key is ascending.
    request.sort_target == SortTarget::Key && request.sort_order != SortOrder::Descend
}

pub(crate) fn has_filters(request: &RangeRequest) -> bool {
    let RangeRequest { min_mod_revision, max_mod_revision, min_create_revision, max_create_revision, .. } =
        request;
    [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision]
        .into_iter()
        .any(|limit| *limit != 0)
}

/// True if an entry passes the filters of a request; 0 is no filter.
pub(crate) fn passes(entry: &Entry, request: &RangeRequest) -> bool {
    let within = |revision: u64, min: i64, max: i64| {
        let revision = revision as i64;
        (min == 0 || revision >= min) && (max == 0 || revision <= max)
    };
    within(entry.mod_revision, request.min_mod_revision, request.max_mod_revision)
        && within(entry.create_revision, request.min_create_revision, request.max_create_revision)
}

/// The order of two entries in the response.
pub(crate) fn compare(a: &Entry, b: &Entry, request: &RangeRequest) -> Ordering {
    let ascending = match request.sort_target {
        SortTarget::Key | SortTarget::Other(_) => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    if request.sort_order == SortOrder::Descend { ascending.reverse() } else { ascending }
}

/// An entry in the response to a range.
pub(crate) fn ranged(entry: &Entry, request: &RangeRequest) -> KeyValue {
    if request.keys_only { without_value(entry) } else { key_value(entry) }
}
