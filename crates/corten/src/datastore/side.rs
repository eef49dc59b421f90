//! One side of a migration: a data directory or etcd, opened as the server opens it.
//!
//! Invariant: a source is only read. A data directory is opened without compaction, and values that are sealed with an earlier
//! key stay as they are; etcd gets no writes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_apiserver::{EncryptedForms, EncryptionAtRest, StorageMediaType, StoredForms};
use corten_base::Clock;
use corten_store::{EtcdOptions, Opened, Options, Sealing, SealingError, Store};

use crate::etcd_client::{self, TlsFiles};
use crate::hardening;

/// The time in which etcd has to answer at first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// "Never" for the age at which a source is compacted.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The flags of one side.
pub(crate) struct Side<'a> {
    /// `--from` or `--to`.
    pub(crate) flag: &'static str,
    pub(crate) place: Cow<'a, str>,
    pub(crate) prefix: &'a str,
    pub(crate) tls: TlsFiles<'a>,
    pub(crate) encryption: Option<&'a Path>,
    pub(crate) media_type: StorageMediaType,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Target,
}

impl Side<'_> {
    /// The URLs of etcd; `None` for a data directory.
    fn urls(&self) -> Option<Vec<String>> {
        self.place.contains("://").then(|| self.place.split(',').map(str::to_owned).collect())
    }

    pub(super) fn is_etcd(&self) -> bool {
        self.urls().is_some()
    }

    fn key_prefix(&self) -> String {
        etcd_client::key_prefix(self.prefix)
    }

    /// The place as the mark of a migration names it: the same for the same place.
    pub(super) fn name(&self) -> String {
        match self.urls() {
            Some(mut urls) => {
                urls.sort_unstable();
                format!("{}{}", urls.join(","), self.key_prefix())
            }
            None => {
                let path = PathBuf::from(&*self.place);
                std::fs::canonicalize(&path).unwrap_or(path).display().to_string()
            }
        }
    }

    /// True if writing to the one may change the other.
    pub(super) fn overlaps(&self, other: &Side<'_>) -> bool {
        let (Some(urls), Some(others)) = (self.urls(), other.urls()) else {
            return self.name() == other.name();
        };
        let (prefix, other) = (self.key_prefix(), other.key_prefix());
        let is_nested = prefix.starts_with(&other) || other.starts_with(&prefix);
        is_nested && urls.iter().any(|url| others.contains(url))
    }

    pub(super) async fn open(&self, role: Role) -> anyhow::Result<Store> {
        let opened = match self.urls() {
            Some(urls) => self.connect(&urls, Arc::new(load_encryption(self.encryption).await?), role).await,
            None => open_directory(Path::new(&*self.place), self.encryption, role).await,
        };
        opened.with_context(|| format!("{} {}", self.flag, self.place))
    }

    async fn connect(
        &self,
        urls: &[String],
        encryption: Arc<EncryptionAtRest>,
        role: Role,
    ) -> anyhow::Result<Store> {
        let options = EtcdOptions {
            prefix: self.key_prefix(),
            compaction: None,
            read_only: role == Role::Source,
            ..EtcdOptions::new(etcd_client::endpoints(urls, &self.tls)?)
        };
        let forms = EncryptedForms::new(StoredForms::new(self.media_type), encryption, &options.prefix);
        match tokio::time::timeout(CONNECT_TIMEOUT, Store::connect(options, forms)).await {
            Ok(store) => store.context("cannot read keys of etcd"),
            Err(_) => bail!("etcd does not answer"),
        }
    }
}

/// Opens the store of a data directory.
pub(super) async fn open_directory(
    directory: &Path,
    encryption: Option<&Path>,
    role: Role,
) -> anyhow::Result<Store> {
    let encryption = load_encryption(encryption).await?;
    let store = directory.join("store");
    let options = match role {
        Role::Source if !store.is_dir() => {
            bail!("the directory has no store; give the --data-dir of a server")
        }
        Role::Source => {
            Options { history: NEVER, sealing: Arc::new(AsItIs(encryption)), ..Options::default() }
        }
        Role::Target => {
            hardening::prepare_data_directory(directory)?;
            Options { sealing: Arc::new(encryption), ..Options::default() }
        }
    };
    Store::open(&store, options).context("cannot open the store")
}

/// Loads an EncryptionConfiguration, or none, and waits for its plugins.
pub(crate) async fn load_encryption(file: Option<&Path>) -> anyhow::Result<EncryptionAtRest> {
    let encryption = match file {
        Some(file) => EncryptionAtRest::load(file, false, Clock::real())?,
        None => EncryptionAtRest::default(),
    };
    encryption.start().await;
    encryption.await_plugins().await?;
    Ok(encryption)
}

/// Reads sealed values, and never asks for them to be sealed again.
#[derive(Debug)]
struct AsItIs(EncryptionAtRest);

impl Sealing for AsItIs {
    fn seal(&self, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        self.0.seal(key, plain)
    }

    fn open(&self, key: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError> {
        let opened = self.0.open(key, stored)?;
        Ok(opened.map(|opened| Opened { is_stale: false, ..opened }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_within_its_source_is_found() {
        let side = |place: &'static str, prefix: &'static str| Side {
            flag: "--from",
            place: place.into(),
            prefix,
            tls: TlsFiles { authorities: ("", None), certificate: ("", None), key: ("", None) },
            encryption: None,
            media_type: StorageMediaType::default(),
        };
        let etcd = side("https://a:1,https://b:1", "/registry");
        for (place, prefix, expected) in [
            ("https://b:1", "/registry/", true),
            ("https://b:1", "registry/other", true),
            ("https://b:1", "/", true),
            ("https://b:1", "/registry2", false),
            ("https://c:1", "/registry", false),
            ("/registry", "/registry", false),
        ] {
            let other = side(place, prefix);
            assert_eq!(
                (etcd.overlaps(&other), other.overlaps(&etcd)),
                (expected, expected),
                "{place} {prefix}"
            );
        }
        assert!(side("/var/lib/none", "").overlaps(&side("/var/lib/none", "")));
    }
}
