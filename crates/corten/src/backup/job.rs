//! One backup: copy, archive, place, retention. The server runs jobs of clients and of schedules, and `corten backup create` runs
//! one itself while no server does.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use corten_backup::place::{Place, is_bucket};
use corten_backup::{Name, Passphrase, S3Credentials, surplus};
use corten_store::Store;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::copy::Copy;
use super::place::BucketFlags;

/// The directory of archives on their way to a bucket, in the data directory.
const SPOOL: &str = "backup-spool";
const MAX_PASSPHRASE_FILE: u64 = 64 << 10;

/// A backup to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Job {
    /// The set of archives that it belongs to.
    pub(super) set: String,
    /// A directory, or `s3://BUCKET/PREFIX`.
    pub(super) to: String,
    /// The number of archives of the set to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) keep: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) passphrase_file: Option<PathBuf>,
    /// True to write an archive in plain text although the store is encrypted.
    #[serde(default)]
    pub(super) unencrypted: bool,
    pub(super) bucket: BucketFlags,
}

/// The secrets of a job. They are never written to a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Secrets {
    pub(super) passphrase: Option<Passphrase>,
    /// None for a place that is a directory.
    pub(super) credentials: Option<S3Credentials>,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) to: String,
    pub(super) bytes: u64,
    pub(super) objects: u64,
    pub(super) revision: u64,
    /// The archives that retention removed.
    pub(super) removed: Vec<String>,
    /// The reason why an archive that retention counts out is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retention_failure: Option<String>,
}

/// The cluster that is copied.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) store: Store,
    pub(super) data_dir: PathBuf,
    /// True if the store's values are encrypted on disk.
    pub(super) is_encrypted: bool,
}

impl Job {
    /// Checks what can be known before a backup is made.
    pub(super) fn check(&self, is_encrypted: bool) -> anyhow::Result<()> {
        ensure!(self.keep != Some(0), "--keep is the number of backups to keep, at least 1");
        ensure!(
            Name::new(&self.set, Timestamp::UNIX_EPOCH).is_some(),
            "--name: a name has lower-case letters, digits and dashes, at most 63"
        );
        ensure!(
            self.passphrase_file.is_some() || self.unencrypted || !is_encrypted,
            "the store is encrypted (--encryption-provider-config), and the backup would have every Secret in plain \
             text: give --passphrase-file, or --unencrypted"
        );
        Ok(())
    }

    /// Reads the secrets from the files that the job names.
    pub(super) fn secrets(&self) -> anyhow::Result<Secrets> {
        let credentials = if is_bucket(&self.to) { Some(self.bucket.credentials()?) } else { None };
        let passphrase = self.passphrase_file.as_deref().map(read_passphrase).transpose()?;
        Ok(Secrets { passphrase, credentials })
    }

    /// Makes the backup.
    pub(super) async fn run(&self, cluster: &Cluster, secrets: Secrets) -> anyhow::Result<Report> {
        self.check(cluster.is_encrypted)?;
        let Secrets { passphrase, credentials } = secrets;
        ensure!(passphrase.is_some() == self.passphrase_file.is_some(), "the passphrase is missing");
        let place = self.bucket.open(&self.to, credentials)?;
        let name = Name::new(&self.set, Timestamp::now()).context("the clock shows an impossible time")?;
        let draft = place.draft(&name, &cluster.data_dir.join(SPOOL))?;
        let copy = Copy::take(cluster).await?;
        let revision = copy.revision;
        let (path, created) = (draft.clone(), name.created);
        let write = move || copy.write(&path, created, passphrase.as_ref());
        let written = match tokio::task::spawn_blocking(write).await.context("the backup panicked")? {
            Ok(written) => written,
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                return Err(error);
            }
        };
        let stored = place.put(&name, &draft, written.sha256).await;
        stored.with_context(|| format!("cannot store the backup in {}", self.to))?;
        let mut report = Report {
            name: name.to_string(),
            to: self.to.clone(),
            bytes: written.bytes,
            objects: written.entries,
            revision,
            removed: Vec::new(),
            retention_failure: None,
        };
        if let Some(keep) = self.keep {
            let kept = retain(&place, &self.set, keep, &mut report.removed).await;
            report.retention_failure = kept.err().map(|error| format!("{error:#}"));
        }
        Ok(report)
    }
}

/// Removes the oldest archives of a set. Only after a new one is stored, so that a failure leaves one too many.
async fn retain(place: &Place, set: &str, keep: u32, removed: &mut Vec<String>) -> anyhow::Result<()> {
    let stored = place.list().await.context("cannot list backups")?;
    let names: Vec<Name> = stored.into_iter().map(|stored| stored.name).collect();
    for name in surplus(&names, set, keep as usize) {
        place.remove(&name).await.with_context(|| format!("cannot remove {name}"))?;
        removed.push(name.to_string());
    }
    Ok(())
}

/// Reads a passphrase; `-` is stdin.
pub(super) fn read_passphrase(path: &Path) -> anyhow::Result<Passphrase> {
    use std::io::Read;
    let mut content = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(MAX_PASSPHRASE_FILE).read_to_end(&mut content),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_PASSPHRASE_FILE).read_to_end(&mut content)),
    };
    read.with_context(|| format!("cannot read --passphrase-file {}", path.display()))?;
    Passphrase::of_file(content)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("--passphrase-file {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let (set, to, bucket) = ("nightly".into(), "/backups".into(), BucketFlags::default());
        Job { set, to, keep: Some(3), passphrase_file: None, unencrypted: false, bucket }
    }

    #[test]
    fn an_encrypted_store_is_not_written_in_plain_text_by_accident() {
        job().check(false).unwrap();
        assert!(job().check(true).unwrap_err().to_string().contains("plain text"));
        Job { unencrypted: true, ..job() }.check(true).unwrap();
        Job { passphrase_file: Some("/p".into()), ..job() }.check(true).unwrap();
        assert!(Job { keep: Some(0), ..job() }.check(false).is_err());
        assert!(Job { set: "../x".into(), ..job() }.check(false).is_err());
    }

    #[test]
    fn jobs_round_trip_as_json() {
        let text = serde_json::to_string(&job()).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job(), "{text}");
    }
}
