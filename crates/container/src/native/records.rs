//! Records of sandboxes and containers: their configuration, and how they ended.
//!
//! `sandboxes/<id>/` and `containers/<id>/` have a `record.json` each, replaced as a whole. A container's folder also
//! has `started` and `exit`, which its supervisor writes.
//!
//! *Invariants:* all files are readable by their owner only. The values of a container's environment and its command,
//! which may contain Secrets, are in no record: they are in `process.json`, which is needed to start the container and
//! to run commands in it after a restart, and which is removed when the container ends.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use corten_base::files;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::image::Digest;
use crate::{ContainerConfig, ContainerUser, Error, PodSandboxConfig, Result};

const RECORD: &str = "record.json";
const PROCESS: &str = "process.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SandboxRecord {
    pub(super) id: String,
    pub(super) config: PodSandboxConfig,
    pub(super) handler: String,
    pub(super) created_at: Timestamp,
    pub(super) ips: Vec<String>,
    /// The supervisor's cgroup.
    pub(super) cgroup: String,
    /// Stopped on request: only this record is left.
    pub(super) stopped: bool,
    /// The process id of the supervisor.
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
    /// The reason for which it failed to start, if a start was attempted.
    pub(super) start_failure: Option<Ended>,
}

/// The process of a container: kept apart from its record, because it may contain Secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    command: Vec<String>,
    args: Vec<String>,
    envs: Vec<(String, String)>,
}

/// A record with a part that is kept apart.
pub(super) trait Record: Serialize + DeserializeOwned + Clone {
    /// The record without its confidential part, and that part; `None` if there is none or it is no longer needed.
    fn split(&self) -> (Cow<'_, Self>, Option<Process>);

    /// Restores the confidential part.
    fn join(&mut self, process: Process);
}

impl Record for SandboxRecord {
    fn split(&self) -> (Cow<'_, SandboxRecord>, Option<Process>) {
        (Cow::Borrowed(self), None)
    }

    fn join(&mut self, _process: Process) {}
}

impl Record for ContainerRecord {
    fn split(&self) -> (Cow<'_, ContainerRecord>, Option<Process>) {
        let mut record = self.clone();
        let config = &mut record.config;
        let process = Process {
            command: std::mem::take(&mut config.command),
            args: std::mem::take(&mut config.args),
            envs: std::mem::take(&mut config.envs),
        };
        let is_needed = record.start_failure.is_none() && process != Process::default();
        (Cow::Owned(record), is_needed.then_some(process))
    }

    fn join(&mut self, process: Process) {
        self.config.command = process.command;
        self.config.args = process.args;
        self.config.envs = process.envs;
    }
}

/// The exit of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Timestamp,
}

impl Ended {
    /// An exit that the supervisor observed.
    pub(super) fn observed(
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

    /// An exit that no supervisor observed.
    pub(super) fn unobserved(started_at: Option<Timestamp>, now: Timestamp) -> Ended {
        Ended {
            code: 255,
            reason: "Unknown".to_owned(),
            message: "the pod's supervisor ended before the container's exit was observed".to_owned(),
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

/// Writes a record, as a whole or not at all.
pub(super) fn write(folder: &Path, record: &impl Record) -> Result<()> {
    let (record, process) = record.split();
    match process {
        // It never changes after the container was created.
        Some(_) if folder.join(PROCESS).exists() => {}
        Some(process) => write_document(folder, PROCESS, &process)?,
        None => forget_process(folder),
    }
    write_document(folder, RECORD, record.as_ref())
}

fn write_document(folder: &Path, name: &str, document: &impl Serialize) -> Result<()> {
    let text =
        serde_json::to_vec(document).map_err(|error| Error::internal("cannot write a record", error))?;
    let (new, place) = (folder.join(format!("{name}.new")), folder.join(name));
    let written = files::write_private(&new, text).and_then(|()| fs::rename(&new, &place));
    written.map_err(|error| Error::internal(format!("cannot write {}", place.display()), error))
}

/// Removes a container's process file, once the container has ended.
pub(super) fn forget_process(folder: &Path) {
    let path = folder.join(PROCESS);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), err = %error, "cannot remove process file of exited container");
        }
        _ => {}
    }
}

/// Creates the folders of a container's root file system. The container can enter them, but not the folder above.
pub(super) fn make_folders(folder: &Path) -> io::Result<()> {
    files::private_directory(folder)?;
    ["upper", "work", "root", "empty"].iter().try_for_each(|part| files::directory(&folder.join(part), 0o755))
}

fn read<T: Record>(folder: &Path) -> Option<T> {
    let mut record: T = read_document(folder, RECORD)?;
    if record.split().1.is_some() {
        // Written by an earlier version.
        if let Err(error) = write(folder, &record) {
            tracing::warn!(path = %folder.display(), err = %error, "cannot restrict mode of record");
        }
    } else if let Some(process) = read_document(folder, PROCESS) {
        record.join(process);
    }
    Some(record)
}

/// Reads a document; its mode is narrowed if others could read it.
fn read_document<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    let mut text = Vec::new();
    let mut file = files::open_private(OpenOptions::new().read(true), &folder.join(name)).ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// All records below a folder; folders without a complete record are removed.
pub(super) fn read_all<T: Record>(folder: &Path) -> Result<Vec<T>> {
    let fail = |error: io::Error| Error::internal(format!("cannot read {}", folder.display()), error);
    files::private_directory(folder).map_err(fail)?;
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        match read(&path) {
            Some(record) => {
                files::private_directory(&path).map_err(fail)?;
                records.push(record);
            }
            None => {
                tracing::warn!(path = %path.display(), "removing directory without record");
                fs::remove_dir_all(&path).map_err(fail)?;
            }
        }
    }
    Ok(records)
}

/// The process id of a container and the time of its start.
pub(super) fn read_started(folder: &Path) -> Option<(u32, Timestamp)> {
    let text = fs::read_to_string(folder.join("started")).ok()?;
    let (pid, at) = text.trim().split_once(' ')?;
    Some((pid.parse().ok()?, nanoseconds(at.parse().ok()?)))
}

/// The exit of a container, if its supervisor observed it.
pub(super) fn read_exit(folder: &Path) -> Option<Ended> {
    let text = fs::read_to_string(folder.join("exit")).ok()?;
    let mut fields = text.split_whitespace();
    let code = fields.next()?.parse().ok()?;
    let out_of_memory = fields.next()? == "1";
    let at = nanoseconds(fields.next()?.parse().ok()?);
    Some(Ended::observed(code, out_of_memory, read_started(folder).map(|(_, at)| at), at))
}

pub(super) fn nanoseconds(since_epoch: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(since_epoch)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SECRET: &str = "s3cr3t";

    fn record() -> ContainerRecord {
        ContainerRecord {
            id: "a".into(),
            sandbox_id: "b".into(),
            config: ContainerConfig {
                command: vec!["serve".into()],
                args: vec![format!("--token={SECRET}")],
                envs: vec![("TOKEN".into(), SECRET.into())],
                ..ContainerConfig::default()
            },
            created_at: Timestamp::UNIX_EPOCH,
            image_id: Digest::of(b""),
            image_ref: String::new(),
            log_path: String::new(),
            cgroup: String::new(),
            user: ContainerUser::default(),
            home: "/".into(),
            stop_signal: "SIGTERM".into(),
            start_failure: None,
        }
    }

    /// The files below a folder that contain the secret, and the modes of all files.
    fn files_with_secret_and_modes(folder: &Path) -> (Vec<String>, Vec<u32>) {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let files: Vec<_> = files.filter(|entry| entry.file_type().unwrap().is_file()).collect();
        let holds = |entry: &&fs::DirEntry| fs::read_to_string(entry.path()).unwrap().contains(SECRET);
        let holding = files.iter().filter(holds).map(|entry| entry.file_name().into_string().unwrap());
        let modes = files.iter().map(|entry| entry.metadata().unwrap().permissions().mode() & 0o777);
        (holding.collect(), modes.collect())
    }

    #[test]
    fn no_value_of_an_environment_is_in_a_record_nor_readable_by_others_nor_left_when_it_ended() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a");
        make_folders(&folder).unwrap();
        let mut record = record();
        write(&folder, &record).unwrap();
        assert_eq!(files_with_secret_and_modes(&folder), (vec![PROCESS.to_owned()], vec![0o600; 2]));
        assert_eq!(read_all::<ContainerRecord>(scratch.path()).unwrap(), [record.clone()], "found again");
        record.config.linux.resources.cpu_shares = 2;
        write(&folder, &record).unwrap();
        assert_eq!(read_all::<ContainerRecord>(scratch.path()).unwrap(), [record.clone()]);
        forget_process(&folder);
        assert_eq!(files_with_secret_and_modes(&folder).0, Vec::<String>::new());
        let left = read_all::<ContainerRecord>(scratch.path()).unwrap();
        assert_eq!((left[0].id.as_str(), left[0].config.envs.len()), ("a", 0));
        record.start_failure = Some(Ended::unobserved(None, Timestamp::UNIX_EPOCH));
        write(&folder, &record).unwrap();
        assert_eq!(
            files_with_secret_and_modes(&folder).0,
            Vec::<String>::new(),
            "one that failed to start needs none"
        );
    }

    #[test]
    fn a_record_of_an_earlier_version_is_narrowed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a");
        fs::create_dir(&folder).unwrap();
        let record = record();
        fs::write(folder.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
        for (path, mode) in [(folder.join(RECORD), 0o644), (folder.clone(), 0o755)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(read_all::<ContainerRecord>(scratch.path()).unwrap(), [record]);
        assert_eq!(files_with_secret_and_modes(&folder), (vec![PROCESS.to_owned()], vec![0o600; 2]));
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
