//! The records of attachments: one small file each, replaced atomically.
//!
//! Files are not synced: after a power failure no pod is attached, and plugins delete what they can.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use corten_base::files;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::config::List;
use super::{Error, Pod, Result, plan};

const SUFFIX: &str = ".json";

/// Everything that `DEL` needs of `ADD`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) list: List,
    pub(super) args: String,
    pub(super) capabilities: Map<String, Value>,
    /// Device and inode of the namespace, because a path through a process may lead to another namespace later.
    identity: (u64, u64),
    /// The result of the last plugin; `None` while plugins run.
    pub(super) result: Option<Value>,
}

impl Record {
    pub(super) fn new(list: List, pod: &Pod) -> Result<Record> {
        let opening =
            |source| Error::System { operation: format!("cannot open {}", pod.network.display()), source };
        let args = plan::args(&pod.namespace, &pod.name, &pod.sandbox, &pod.uid);
        let identity = identity(&pod.network).map_err(opening)?;
        Ok(Record { list, args, capabilities: pod.capabilities.clone(), identity, result: None })
    }

    /// The path if it still leads to the pod's namespace, or an empty one.
    pub(super) fn namespace(&self, path: &Path) -> String {
        match identity(path) {
            Ok(found) if found == self.identity => path.to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[derive(Debug)]
pub(super) struct Records(PathBuf);

impl Records {
    pub(super) fn open(folder: &Path) -> Result<Records> {
        files::private_directory(folder).map_err(during("create", folder))?;
        Ok(Records(folder.to_owned()))
    }

    pub(super) fn read(&self, sandbox: &str) -> Result<Option<Record>> {
        let path = self.path(sandbox)?;
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(during("read", &path))?,
        };
        match serde_json::from_slice(&text) {
            Ok(record) => Ok(Some(record)),
            Err(err) => {
                tracing::warn!(path = %path.display(), %err, "ignoring invalid CNI attachment record");
                Ok(None)
            }
        }
    }

    pub(super) fn write(&self, sandbox: &str, record: &Record) -> Result<()> {
        let path = self.path(sandbox)?;
        let unfinished = path.with_extension("new");
        let text = serde_json::to_vec(record).map_err(io::Error::from);
        text.and_then(|text| files::write_private(&unfinished, text))
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(during("write", &path))
    }

    pub(super) fn remove(&self, sandbox: &str) -> Result<()> {
        let path = self.path(sandbox)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(during("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// The sandboxes of a network.
    pub(super) fn sandboxes_of(&self, network: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(during("read", &self.0))? {
            let name = entry.map_err(during("read", &self.0))?.file_name();
            let Some(sandbox) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
            if self.read(sandbox)?.is_some_and(|record| record.list.name == network) {
                found.push(sandbox.to_owned());
            }
        }
        found.sort();
        Ok(found)
    }

    fn path(&self, sandbox: &str) -> Result<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if sandbox.is_empty() || sandbox.len() > 200 || !sandbox.chars().all(plain) {
            let source =
                io::Error::new(io::ErrorKind::InvalidInput, format!("{sandbox:?} is not a valid sandbox ID"));
            return Err(Error::System { operation: "cannot record the CNI attachment".to_owned(), source });
        }
        Ok(self.0.join(format!("{sandbox}{SUFFIX}")))
    }
}

fn during(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let operation = format!("cannot {doing} {}", path.display());
    move |source| Error::System { operation, source }
}
