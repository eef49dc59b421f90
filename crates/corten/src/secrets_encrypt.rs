//! `corten secrets-encrypt`: the encryption of Secrets in the datastore, and the rotation of its keys, with k3s' commands.
//!
//! A rotation has stages (`keys`). *Invariant:* the next one begins only when every server that announced itself has the
//! current one in force, so that no server ever lacks a key that another one encrypts with, and an old key is removed only
//! when no stored Secret needs it.

mod keys;
mod reencrypt;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::Subcommand;
use corten_base::{Clock, files};
use corten_client::{Client, Key, Remote, kinds};

use crate::kubeconfig::AdminFlags;
use crate::server;
use keys::Stage;
pub(crate) use keys::{KeyKind, ManagedKeys};

/// The directory of the configuration, in the data directory.
pub(crate) const DIRECTORY: &str = "encryption";
/// The ConfigMap in which servers announce the configuration that is in force.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const ANNOUNCEMENTS: &str = "corten-encryption";
/// The prefix of a configuration that is in force, while values are sealed again.
pub(crate) const SEALING: &str = "sealing ";
const POLL: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    admin: AdminFlags,
    /// Time to wait until all servers use a changed configuration.
    #[arg(long, global = true, default_value = "2m0s", value_parser = server::parse_duration)]
    timeout: Duration,
}

#[derive(Subcommand)]
enum Command {
    /// Show the keys, the stage of a rotation, and whether all servers agree.
    Status,
    /// Add a new key, which decrypts.
    Prepare,
    /// Encrypt with the new key; the old one decrypts.
    Rotate,
    /// Write all Secrets again with the current key, and remove the old one.
    Reencrypt,
    /// Replace the key: prepare, rotate and reencrypt. Continues an interrupted rotation.
    RotateKeys,
    /// Encrypt Secrets when they are written.
    Enable,
    /// Write Secrets as they are; run reencrypt next.
    Disable,
}

/// The path of the configuration in a data directory.
pub(crate) fn configuration_path(data_dir: &Path) -> PathBuf {
    data_dir.join(DIRECTORY).join("config.json")
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let credentials = args.admin.credentials()?;
        let remote =
            Remote::new(&credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
        let client = Client::new(Arc::new(remote), "corten");
        let session = Session {
            client,
            path: configuration_path(&args.admin.data_dir),
            timeout: args.timeout,
            clock: Clock::real(),
        };
        match args.command {
            Command::Status => session.status().await,
            Command::Prepare => session.change("prepared", |keys| keys.prepare(SystemTime::now())).await,
            Command::Rotate => session.change("rotated", ManagedKeys::rotate).await,
            Command::Reencrypt => session.reencrypt().await,
            Command::RotateKeys => session.rotate_keys().await,
            Command::Enable => session.switch(true).await,
            Command::Disable => session.switch(false).await,
        }
    })
}

/// A server as it announces itself: its id, and its configuration.
struct Announced {
    server: String,
    state: String,
}

struct Session {
    client: Client,
    path: PathBuf,
    timeout: Duration,
    clock: Clock,
}

impl Session {
    fn keys(&self) -> anyhow::Result<ManagedKeys> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "this server does not manage keys: it was started without --secrets-encryption. Keys of \
                 --encryption-provider-config are changed in its file; `corten secrets-encrypt reencrypt` applies them"
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", self.path.display()));
            }
        };
        ManagedKeys::parse(&text).with_context(|| format!("cannot use {}", self.path.display()))
    }

    /// The configurations of all servers.
    async fn announced(&self) -> anyhow::Result<Vec<Announced>> {
        let key = Key::new(NAMESPACE, ANNOUNCEMENTS);
        let map = match self.client.get(&kinds::CONFIG_MAPS, &key).await {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            found => found.context("cannot read the configurations of the servers")?,
        };
        let data = map.get("data").and_then(|data| data.as_object());
        let entries = data.into_iter().flat_map(|data| data.iter());
        Ok(entries
            .map(|(server, state)| Announced {
                server: server.to_string(),
                state: state.as_str().unwrap_or_default().to_owned(),
            })
            .collect())
    }

    /// Waits until all servers use the configuration of this one, and what they store themselves is sealed by it.
    async fn await_servers(&self) -> anyhow::Result<()> {
        let wanted = std::fs::read(&self.path).ok().map(|text| hash(&text));
        let mut behind = Vec::new();
        let agreed = async {
            loop {
                let all = self.announced().await?;
                // Without a managed file, the servers only have to agree.
                let wanted = wanted.clone().or_else(|| all.first().map(|first| first.state.clone()));
                behind = all
                    .iter()
                    .filter(|one| Some(&one.state) != wanted.as_ref() || one.state.starts_with(SEALING))
                    .map(|one| one.server.clone())
                    .collect();
                if behind.is_empty() && !all.is_empty() {
                    return Ok(());
                }
                self.clock.sleep(POLL).await;
            }
        };
        match self.clock.timeout(self.timeout, agreed).await {
            Some(agreed) => agreed,
            None if behind.is_empty() => {
                bail!("no server encrypts Secrets; start it with --secrets-encryption")
            }
            None => bail!(
                "these servers do not use the configuration of this one: {}. Copy {} to each of them (they use it \
                 without a restart) and run the command again. Remove a server that no longer exists from the ConfigMap \
                 {NAMESPACE}/{ANNOUNCEMENTS}",
                behind.join(", "),
                self.path.display()
            ),
        }
    }

    /// Changes the configuration once all servers use the current one, and waits until all use the new one.
    async fn change(
        &self,
        done: &str,
        change: impl FnOnce(&mut ManagedKeys) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut keys = self.keys()?;
        self.await_servers().await?;
        change(&mut keys)?;
        files::replace_private(&self.path, keys.to_text())
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.await_servers().await?;
        println!("{done}; stage: {}", keys.stage().name());
        Ok(())
    }

    async fn reencrypt(&self) -> anyhow::Result<()> {
        let is_managed = self.path.exists();
        if is_managed && self.keys()?.stage() == Stage::Prepare {
            bail!("the new key does not encrypt yet; run `corten secrets-encrypt rotate` first");
        }
        self.await_servers().await?;
        reencrypt::all(&self.client).await?;
        if is_managed && self.keys()?.stage() == Stage::Rotate {
            return self.change("reencrypted, and removed the old key", ManagedKeys::finish).await;
        }
        println!("reencrypted");
        Ok(())
    }

    async fn rotate_keys(&self) -> anyhow::Result<()> {
        if self.keys()?.stage() == Stage::Start {
            self.change("added a new key", |keys| keys.prepare(SystemTime::now())).await?;
        }
        if self.keys()?.stage() == Stage::Prepare {
            self.change("encrypting with the new key", ManagedKeys::rotate).await?;
        }
        self.reencrypt().await
    }

    async fn switch(&self, is_enabled: bool) -> anyhow::Result<()> {
        if self.keys()?.stage() != Stage::Start {
            bail!("a rotation is not finished; run `corten secrets-encrypt rotate-keys` first");
        }
        let done = if is_enabled { "enabled" } else { "disabled" };
        self.change(done, |keys| {
            keys.is_enabled = is_enabled;
            Ok(())
        })
        .await?;
        println!("Run `corten secrets-encrypt reencrypt` to write the existing Secrets again.");
        Ok(())
    }

    async fn status(&self) -> anyhow::Result<()> {
        let announced = self.announced().await?;
        let keys = if self.path.exists() { Some(self.keys()?) } else { None };
        match &keys {
            Some(keys) => {
                println!("Encryption Status: {}", if keys.is_enabled { "Enabled" } else { "Disabled" });
                println!("Current Rotation Stage: {}", keys.stage().name());
            }
            None if announced.is_empty() => {
                println!("Encryption Status: Disabled, no configuration file found")
            }
            None => println!("Encryption Status: as --encryption-provider-config says"),
        }
        let mut states: Vec<&str> = announced.iter().map(|one| one.state.as_str()).collect();
        states.sort_unstable();
        states.dedup();
        match states.as_slice() {
            [] => {}
            [one] if !one.starts_with(SEALING) => println!("Server Encryption Hashes: All hashes match"),
            _ => {
                println!("Server Encryption Hashes: hashes do not match");
                announced.iter().for_each(|one| println!("  {}: {}", one.server, one.state));
            }
        }
        if let Some(keys) = &keys {
            println!("\nActive  Key Type           Name\n------  --------           ----");
            for (index, name) in keys.names().enumerate() {
                let mark = if index == 0 && keys.is_enabled { '*' } else { ' ' };
                println!(" {mark}      {:<17}  {name}", keys.kind().shown());
            }
        }
        Ok(())
    }
}

/// The hash of a configuration, as servers announce it.
fn hash(text: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().fold("sha256:".to_owned(), |hash, byte| format!("{hash}{byte:02x}"))
}
