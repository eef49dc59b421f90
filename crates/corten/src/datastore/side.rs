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

    /// The prefix of keys in etcd, with its slashes.
    fn key_prefix(&self) -> String {
        format!("/{}/", self.prefix.trim_matches('/'))
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

    pub(super) async fn open(&self, role: Role) -> anyhow::Result<Store> {
        let opened = match self.urls() {
            Some(urls) => self.connect(&urls, Arc::new(load(self.encryption)?), role).await,
            None => open_directory(Path::new(&*self.place), self.encryption, role),
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
pub(super) fn open_directory(
    directory: &Path,
    encryption: Option<&Path>,
    role: Role,
) -> anyhow::Result<Store> {
    let encryption = load(encryption)?;
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

fn load(encryption: Option<&Path>) -> anyhow::Result<EncryptionAtRest> {
    encryption.map_or_else(|| Ok(EncryptionAtRest::default()), |file| Ok(EncryptionAtRest::load(file)?))
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
