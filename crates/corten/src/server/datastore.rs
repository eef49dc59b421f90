//! The flags that choose the datastore: the embedded store by default, or etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_apiserver::{EncryptedForms, EncryptionAtRest, StorageMediaType, StoredForms};
use corten_store::{EtcdOptions, Store};

use super::parse_duration;
use crate::datastore::Side;
use crate::etcd_client::{self, TlsFiles};
use crate::etcd_member::Member;

#[derive(clap::Args)]
pub(crate) struct DatastoreFlags {
    /// URLs of the etcd servers to use instead of the embedded store.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    etcd_servers: Vec<String>,
    /// Certificate authorities of the etcd servers, a PEM file; https needs one.
    #[arg(long, value_name = "FILE", alias = "datastore-cafile")]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd, a PEM file.
    #[arg(long, value_name = "FILE", alias = "datastore-certfile", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate for etcd, a PEM file.
    #[arg(long, value_name = "FILE", alias = "datastore-keyfile", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in etcd.
    #[arg(long, default_value = "/registry")]
    etcd_prefix: String,
    /// Interval of compactions of etcd; 0 disables them.
    #[arg(long, default_value = "5m0s", value_parser = parse_interval)]
    etcd_compaction_interval: Duration,
    /// Datastore in k3s' notation: the URLs of etcd servers; empty for the embedded store.
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "etcd_servers")]
    datastore_endpoint: Option<String>,
    /// Format of built-in kinds in etcd: application/vnd.kubernetes.protobuf or application/json.
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf", value_parser = StorageMediaType::parse)]
    storage_media_type: StorageMediaType,
}

impl DatastoreFlags {
    /// Connects to the etcd members of the servers, or to etcd if the flags name servers.
    pub(super) async fn connect(
        &self,
        encryption: Arc<EncryptionAtRest>,
        member: Option<&Member>,
    ) -> anyhow::Result<Option<Store>> {
        let urls = self.urls()?;
        let (urls, endpoints) = match member {
            Some(_) if !urls.is_empty() => {
                bail!("--etcd-servers: this server has an etcd member of its own; remove the flag")
            }
            Some(member) => (member.urls.clone(), member.endpoints.clone()),
            None if urls.is_empty() => return Ok(None),
            None => {
                let endpoints = etcd_client::endpoints(&urls, &self.tls()).context("--etcd-servers")?;
                (urls, endpoints)
            }
        };
        let options = EtcdOptions {
            prefix: etcd_client::key_prefix(&self.etcd_prefix),
            compaction: Some(self.etcd_compaction_interval).filter(|interval| !interval.is_zero()),
            ..EtcdOptions::new(endpoints)
        };
        tracing::info!(servers = urls.join(","), prefix = options.prefix, "connecting to etcd");
        let forms = StoredForms::new(self.storage_media_type);
        let forms = EncryptedForms::new(forms, encryption, &options.prefix);
        let store = Store::connect(options, forms).await;
        Ok(Some(store.context("cannot load the objects of etcd")?))
    }

    /// True if the flags name etcd servers.
    pub(crate) fn is_etcd(&self) -> anyhow::Result<bool> {
        Ok(!self.urls()?.is_empty())
    }

    /// The etcd servers as the target of a restore, if the flags name some.
    pub(crate) fn side<'a>(&'a self, encryption: Option<&'a Path>) -> anyhow::Result<Option<Side<'a>>> {
        let urls = self.urls()?;
        Ok((!urls.is_empty()).then(|| Side {
            flag: "--etcd-servers",
            place: urls.join(",").into(),
            prefix: &self.etcd_prefix,
            tls: self.tls(),
            encryption,
            media_type: self.storage_media_type,
        }))
    }

    fn urls(&self) -> anyhow::Result<Vec<String>> {
        let Some(endpoint) = &self.datastore_endpoint else { return Ok(self.etcd_servers.clone()) };
        let urls: Vec<String> =
            endpoint.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect();
        if let Some(other) =
            urls.iter().find(|url| !url.starts_with("http://") && !url.starts_with("https://"))
        {
            bail!("--datastore-endpoint: {other} is not the URL of an etcd server; use http:// or https://");
        }
        Ok(urls)
    }

    fn tls(&self) -> TlsFiles<'_> {
        TlsFiles {
            authorities: ("--etcd-cafile", self.etcd_cafile.as_deref()),
            certificate: ("--etcd-certfile", self.etcd_certfile.as_deref()),
            key: ("--etcd-keyfile", self.etcd_keyfile.as_deref()),
        }
    }
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { parse_duration(text) }
}
