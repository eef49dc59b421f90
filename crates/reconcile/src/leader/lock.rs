//! The lock of an election: a Lease, or an Endpoints or ConfigMap with the record as an annotation. Pure.

use corten_api::{Str, Value, json, time, value};
use corten_client::{Kind, kinds};
use jiff::Timestamp;
use std::time::Duration;

/// The annotation with the record, on Endpoints and ConfigMaps.
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// The largest record that is parsed. Upstream's have 200 bytes.
const RECORD: usize = 4096;

/// The kind of the lock object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockKind {
    #[default]
    Leases,
    Endpoints,
    ConfigMaps,
}

/// The state of an election.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The identity of the leader; empty if the lock is free.
    pub(super) holder: String,
    pub(super) lease_seconds: i64,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i64,
}

impl Record {
    /// The time for which the record is valid after a change.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.try_into().unwrap_or(0))
    }
}

impl LockKind {
    /// Parses `--leader-elect-resource-lock`. The errors are upstream's.
    pub fn parse(text: &str) -> Result<LockKind, String> {
        match text {
            "leases" => Ok(LockKind::Leases),
            "endpoints" => Ok(LockKind::Endpoints),
            "configmaps" => Ok(LockKind::ConfigMaps),
            "endpointsleases" => Err("endpointsleases lock is removed, migrate to leases".to_owned()),
            "configmapsleases" => Err("configmapsleases lock is removed, migrated to leases".to_owned()),
            other => Err(format!("Invalid lock-type {other}")),
        }
    }

    pub(super) fn kind(self) -> &'static Kind {
        match self {
            LockKind::Leases => &kinds::LEASES,
            LockKind::Endpoints => &kinds::ENDPOINTS,
            LockKind::ConfigMaps => &kinds::CONFIG_MAPS,
        }
    }

    /// The record of a lock object. An object without one is a free lock.
    pub(super) fn read(self, object: &Value) -> Result<Record, String> {
        if self == LockKind::Leases {
            return Ok(record(object.at(&["spec"]).unwrap_or(&Value::Null)));
        }
        let Some(text) = object.str_at(&["metadata", "annotations", ANNOTATION]) else {
            return Ok(Record::default());
        };
        if text.len() > RECORD {
            return Err(format!("annotation {ANNOTATION}: the record is too long"));
        }
        let parsed =
            json::parse(text.as_bytes()).map_err(|error| format!("annotation {ANNOTATION}: {error}"))?;
        Ok(record(&parsed))
    }

    /// The lock object with a record.
    pub(super) fn write(self, mut object: Value, record: &Record) -> Value {
        match self {
            LockKind::Leases => {
                object.set(&["spec"], record.to_value("leaseTransitions", time::format_micro))
            }
            LockKind::Endpoints | LockKind::ConfigMaps => {
                let record = record.to_value("leaderTransitions", time::format);
                object.set(&["metadata", "annotations", ANNOTATION], json::write_to_string(&record));
            }
        }
        object
    }
}

impl Record {
    fn to_value(&self, transitions: &str, format: fn(Timestamp) -> Str) -> Value {
        let time = |at: Option<Timestamp>| at.map_or(Value::Null, |at| Value::from(format(at)));
        let mut record = value!({
            "holderIdentity": (self.holder.as_str()), "leaseDurationSeconds": (self.lease_seconds),
            "acquireTime": (time(self.acquired)), "renewTime": (time(self.renewed)),
        });
        record.set(&[transitions], self.transitions);
        record
    }
}

/// Reads a Lease's specification, or the record of an annotation.
fn record(value: &Value) -> Record {
    let int = |key: &str| value.int_at(&[key]).unwrap_or_default();
    let at = |key: &str| value.str_at(&[key]).and_then(|text| time::parse(text).ok());
    Record {
        holder: value.str_at(&["holderIdentity"]).unwrap_or_default().to_owned(),
        lease_seconds: int("leaseDurationSeconds"),
        acquired: at("acquireTime"),
        renewed: at("renewTime"),
        transitions: int("leaseTransitions").max(int("leaderTransitions")),
    }
}
