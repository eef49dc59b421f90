//! What is written down about sandboxes and containers: what was asked for, and how it ended.
//!
//! `sandboxes/<id>/` and `containers/<id>/` hold a `record.json` each, replaced as a whole. A container's folder also
//! has `started` and `exit`, which its supervisor writes.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::image::Digest;
use crate::{ContainerConfig, ContainerUser, Error, PodSandboxConfig, Result};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SandboxRecord {
    pub(super) id: String,
    pub(super) config: PodSandboxConfig,
    pub(super) handler: String,
    pub(super) created_at: Timestamp,
    pub(super) ips: Vec<String>,
    /// The supervisor's cgroup.
    pub(super) cgroup: String,
    /// Stopped on purpose: nothing of it is left but this.
    pub(super) stopped: bool,
    /// Of the supervisor.
    pub(super) pid: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ContainerRecord {
    pub(super) id: String,
    pub(super) sandbox_id: String,
    pub(super) config: ContainerConfig,
    pub(super) created_at: Timestamp,
    pub(super) image_id: Digest,
    pub(super) image_ref: String,
    pub(super) log_path: String,
    pub(super) cgroup: String,
    pub(super) user: ContainerUser,
    pub(super) home: String,
    pub(super) stop_signal: String,
    /// Why it never started, if it was tried.
    pub(super) start_failure: Option<Ended>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Timestamp,
}

impl Ended {
    /// What the supervisor saw.
    pub(super) fn seen(
        code: i32,
        out_of_memory: bool,
        started_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Ended {
        let reason = match (code, out_of_memory) {
            (_, true) => "OOMKilled",
            (0, false) => "Completed",
            _ => "Error",
        };
        Ended { code, reason: reason.to_owned(), message: String::new(), started_at, finished_at: at }
    }

    /// Nobody saw.
    pub(super) fn unseen(started_at: Option<Timestamp>, now: Timestamp) -> Ended {
        Ended {
            code: 255,
            reason: "Unknown".to_owned(),
            message: "the pod's supervisor ended before the container's exit was seen".to_owned(),
            started_at,
            finished_at: now,
        }
    }

    pub(super) fn not_started(error: &Error, now: Timestamp) -> Ended {
        Ended {
            code: 128,
            reason: "StartError".to_owned(),
            message: error.to_string(),
            started_at: None,
            finished_at: now,
        }
    }
}

/// Writes a record, whole or not at all.
pub(super) fn write(folder: &Path, record: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(record).map_err(|error| Error::internal("writing a record", error))?;
    let (new, place) = (folder.join("record.new"), folder.join("record.json"));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &place));
    written.map_err(|error| Error::internal(format!("writing {}", place.display()), error))
}

/// Every record below a folder; what was never finished is removed.
pub(super) fn read_all<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>> {
    let fail = |error: io::Error| Error::internal(format!("reading {}", folder.display()), error);
    fs::create_dir_all(folder).map_err(fail)?;
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let record = fs::read(path.join("record.json"));
        match record.ok().and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(record) => records.push(record),
            None => {
                tracing::warn!(path = %path.display(), "Removing what has no record");
                fs::remove_dir_all(&path).map_err(fail)?;
            }
        }
    }
    Ok(records)
}

/// When a container's process started, and which it was.
pub(super) fn read_started(folder: &Path) -> Option<(u32, Timestamp)> {
    let text = fs::read_to_string(folder.join("started")).ok()?;
    let (pid, at) = text.trim().split_once(' ')?;
    Some((pid.parse().ok()?, nanoseconds(at.parse().ok()?)))
}

/// How a container ended, if its supervisor saw it.
pub(super) fn read_exit(folder: &Path) -> Option<Ended> {
    let text = fs::read_to_string(folder.join("exit")).ok()?;
    let mut fields = text.split_whitespace();
    let code = fields.next()?.parse().ok()?;
    let out_of_memory = fields.next()? == "1";
    let at = nanoseconds(fields.next()?.parse().ok()?);
    Some(Ended::seen(code, out_of_memory, read_started(folder).map(|(_, at)| at), at))
}

pub(super) fn nanoseconds(since_epoch: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(since_epoch)).unwrap_or_default()
}
