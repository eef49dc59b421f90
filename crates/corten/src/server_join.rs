//! `corten server --server URL --token TOKEN`: a further server of a cluster.
//!
//! ```text
//! server token ─► CA, checked against the token's hash ─► proof of the token ─► sealed keys and settings ─► own certificates
//! ```
//!
//! The server then runs as any other, on the same etcd. A later start needs neither token nor other server: keys and settings
//! are in the data directory.
//!
//! Invariants: a node's bootstrap token yields no key; nothing of the data directory is replaced; the keys appear whole or not
//! at all, and last.

mod admit;
mod exchange;
mod fetch;
mod material;
mod record;
mod settings;
mod token;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use corten_pki::install_shared_files;
use corten_store::Store;
use serde_json::Value;

pub(crate) use admit::{JoinSources, Joins};
pub(crate) use material::MemberSeed;
use material::{Datastore, Material};
use record::Record;
pub(crate) use settings::Flags;
use token::ServerToken;
pub(crate) use token::TokenKey;

const ENCRYPTION_FLAG: &str = "encryption-provider-config";
const RELOAD_FLAG: &str = "encryption-provider-config-automatic-reload";

#[derive(clap::Args)]
#[command(next_help_heading = "Joining as a further server")]
pub(crate) struct JoinFlags {
    /// URL of a server of the cluster to join, such as https://192.0.2.1:6443; needed only for the first start.
    #[arg(long = "server", value_name = "URL")]
    server: Option<String>,
    /// Server token, as `corten token create --server` prints it.
    #[arg(long, requires = "server")]
    token: Option<String>,
    /// File with the server token.
    #[arg(long, value_name = "FILE", requires = "server", conflicts_with = "token")]
    token_file: Option<PathBuf>,
}

/// The flags of this process.
pub(crate) struct CommandLine<'a> {
    pub(crate) flags: &'a Flags,
    /// The names of those that were given.
    pub(crate) given: &'a BTreeSet<String>,
}

/// A server's place in a cluster of several.
pub(crate) struct Joined {
    cluster: String,
    /// The arguments with which this server has the cluster's settings.
    pub(crate) arguments: Vec<String>,
    /// The etcd members that this server's member joins.
    pub(crate) members: Option<MemberSeed>,
}

impl JoinFlags {
    /// Joins the cluster that the flags name, unless this server did so before. `None` if it is the first server.
    pub(crate) async fn join(
        &self,
        data_dir: &Path,
        has_etcd: bool,
        line: &CommandLine<'_>,
    ) -> anyhow::Result<Option<Joined>> {
        let pki_dir = data_dir.join("pki");
        if let Some(record) = Record::load(data_dir)?.filter(|_| pki_dir.exists()) {
            return joined(record, line).map(Some);
        }
        let Some(server) = &self.server else { return Ok(None) };
        if pki_dir.exists() {
            bail!(
                "{} belongs to another cluster; remove --server, or choose another directory with --data-dir",
                data_dir.display()
            );
        }
        let server = server.trim_end_matches('/');
        if !server.starts_with("https://") {
            bail!("--server: {server:?} is not an https URL; give one such as https://192.0.2.1:6443");
        }
        let material = fetch::fetch(server, &self.token()?).await?;
        check_datastore(server, &material.datastore, has_etcd)?;
        let keeps_encryption = check_encryption(&material, line)?;
        // Before anything is written, so that a refused start leaves nothing behind.
        settings::arguments(&material.settings, line.flags, line.given)?;
        let record = Record::write(data_dir, &material, keeps_encryption)?;
        install_shared_files(&pki_dir, &material.pki).context("cannot write the cluster's keys")?;
        tracing::info!(server, "joined the cluster as a further server");
        joined(record, line).map(Some)
    }

    fn token(&self) -> anyhow::Result<ServerToken> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => ServerToken::parse(token),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("--token-file: cannot read {}", file.display()))?;
                ServerToken::parse(&text)
            }
            (None, None) => {
                bail!("--server needs the token that `corten token create --server` prints, with --token")
            }
        }
    }
}

fn joined(record: Record, line: &CommandLine<'_>) -> anyhow::Result<Joined> {
    let mut arguments = settings::arguments(&record.settings, line.flags, line.given)?;
    if let Some((file, reloads)) = record.encryption.filter(|_| !line.given.contains(ENCRYPTION_FLAG)) {
        arguments.push(format!("--{ENCRYPTION_FLAG}={}", file.display()));
        if reloads && !line.given.contains(RELOAD_FLAG) {
            arguments.push(format!("--{RELOAD_FLAG}"));
        }
    }
    Ok(Joined { cluster: record.cluster, arguments, members: record.members })
}

impl Joined {
    /// Fails if a datastore is not that of the cluster.
    pub(crate) fn check_datastore(&self, store: &Store) -> anyhow::Result<()> {
        if cluster_uid(store).ok().as_ref() != Some(&self.cluster) {
            bail!(
                "this etcd does not hold the cluster that this server joined; give the --etcd-servers of the other servers"
            );
        }
        Ok(())
    }
}

fn check_datastore(server: &str, datastore: &Datastore, has_etcd: bool) -> anyhow::Result<()> {
    match datastore {
        Datastore::Embedded => bail!(
            "{server} keeps the cluster in its embedded store, which one server alone can use; move the cluster to etcd, or to \
             an etcd member of that server (`corten etcd-member run --cluster-init`), with `corten datastore migrate` first"
        ),
        Datastore::Etcd if !has_etcd => {
            bail!("{server} keeps the cluster in etcd; give the same --etcd-servers, with their TLS files")
        }
        Datastore::Members(_) if has_etcd => {
            bail!(
                "--etcd-servers contradicts the cluster, whose servers run etcd themselves; remove the flag"
            )
        }
        Datastore::Etcd | Datastore::Members(_) => Ok(()),
    }
}

/// Compares the encryption configuration with that of the flags. Returns true if this server has none of its own.
fn check_encryption(material: &Material, line: &CommandLine<'_>) -> anyhow::Result<bool> {
    if !line.given.contains(ENCRYPTION_FLAG) {
        return Ok(true);
    }
    let file = line.flags.iter().find(|(name, _)| name == ENCRYPTION_FLAG).map(|(_, file)| file.as_str());
    let file = file.unwrap_or_default();
    let own = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    match &material.encryption {
        Some((cluster, _)) if cluster.trim() == own.trim() => Ok(false),
        Some(_) => {
            bail!("--{ENCRYPTION_FLAG}: {file} differs from the cluster's configuration; remove the flag")
        }
        None => bail!("--{ENCRYPTION_FLAG} contradicts the cluster, which encrypts nothing; remove the flag"),
    }
}

/// The UID of the namespace `kube-system`, which tells one cluster from another.
fn cluster_uid(store: &Store) -> anyhow::Result<String> {
    let entry =
        store.get("/registry/namespaces/kube-system").context("the namespace kube-system is missing")?;
    let namespace: Value =
        serde_json::from_slice(&entry.value).context("cannot read the namespace kube-system")?;
    let uid = namespace["metadata"]["uid"].as_str();
    uid.map(str::to_owned).context("the namespace kube-system has no UID")
}
