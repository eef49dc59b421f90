//! The encryption of Secrets in the server's datastore: by a configuration that is given, or by one that the server keeps in
//! its data directory (`--secrets-encryption`).
//!
//! The server announces in a ConfigMap the configuration that is in force and by which everything that it stores itself is
//! sealed, so that `corten secrets-encrypt` removes a key only when no server needs it. *Invariant:* a configuration is
//! announced only after that is so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use corten_api::value;
use corten_apiserver::EncryptionAtRest;
use corten_base::{Clock, files};
use corten_client::{Client, Error, Key, Patch, kinds};
use corten_store::Store;

use super::Args;
use crate::secrets_encrypt::{
    ANNOUNCEMENTS, DIRECTORY, KeyKind, ManagedKeys, NAMESPACE, SEALING, configuration_path,
};

/// The name of this server in announcements.
const SERVER_ID: &str = "server-id";
const RETRY: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(super) struct EncryptionFlags {
    /// Encrypt Secrets in the datastore, with keys that `corten secrets-encrypt` manages.
    #[arg(long, conflicts_with = "encryption_provider_config")]
    secrets_encryption: bool,
    /// Cipher of the first key: secretbox or aescbc.
    #[arg(long, default_value = "secretbox", requires = "secrets_encryption")]
    secrets_encryption_provider: KeyKind,
}

/// Loads the configuration, and waits for its plugins where nothing can be read without them: from the embedded store.
pub(super) async fn load(args: &Args, is_embedded: bool) -> anyhow::Result<Arc<EncryptionAtRest>> {
    let encryption = match file(args)? {
        Some((file, reload)) => EncryptionAtRest::load(&file, reload, Clock::real())?,
        None => EncryptionAtRest::default(),
    };
    encryption.start().await;
    if is_embedded {
        encryption.await_plugins().await?;
    }
    Ok(Arc::new(encryption))
}

/// The configuration file that is in use, and whether it is read again when it changes.
pub(super) fn in_use(args: &Args) -> Option<(PathBuf, bool)> {
    let given = args.encryption_provider_config.clone();
    let managed = || (configuration_path(&args.data_dir), true);
    given
        .map(|file| (file, args.encryption_provider_config_automatic_reload))
        .or_else(|| args.secrets_encryption.secrets_encryption.then(managed))
}

/// The configuration file, which is created if this server manages the keys.
fn file(args: &Args) -> anyhow::Result<Option<(PathBuf, bool)>> {
    if args.encryption_provider_config.is_some() {
        return Ok(in_use(args));
    }
    let path = configuration_path(&args.data_dir);
    if !args.secrets_encryption.secrets_encryption {
        if path.exists() {
            bail!(
                "{} has keys that encrypt Secrets; start with --secrets-encryption, or run `corten secrets-encrypt \
                 disable` and `reencrypt` before you remove it",
                path.display()
            );
        }
        return Ok(None);
    }
    if !path.exists() {
        let directory = args.data_dir.join(DIRECTORY);
        let failed = || format!("cannot write {}", path.display());
        files::private_directory(&directory).with_context(failed)?;
        let keys = ManagedKeys::new(args.secrets_encryption.secrets_encryption_provider, SystemTime::now())?;
        files::replace_private(&path, keys.to_text()).with_context(failed)?;
    }
    Ok(in_use(args))
}

/// Follows the file, and announces what is in force.
pub(super) fn follow(
    encryption: Arc<EncryptionAtRest>,
    store: Store,
    client: Client,
    data_dir: &Path,
) -> anyhow::Result<()> {
    if encryption.in_force().borrow().is_empty() {
        return Ok(());
    }
    let server = server_id(data_dir)?;
    let mut in_force = encryption.in_force();
    tokio::spawn(async move { encryption.follow().await });
    tokio::spawn(async move {
        loop {
            let hash = in_force.borrow_and_update().clone();
            if let Err(err) = announce(&client, &store, &server, &hash).await {
                tracing::warn!(err = %format!("{err:#}"), "cannot announce the encryption configuration; retrying");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            if in_force.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

async fn announce(client: &Client, store: &Store, server: &str, hash: &str) -> anyhow::Result<()> {
    // A restart with the same configuration keeps the history.
    let key = Key::new(NAMESPACE, ANNOUNCEMENTS);
    let announced = client.get(&kinds::CONFIG_MAPS, &key).await;
    if announced.is_ok_and(|map| map.str_at(&["data", server]) == Some(hash)) {
        return Ok(());
    }
    // The first write comes after the change of the configuration, as `seal_again` requires.
    write(client, server, &format!("{SEALING}{hash}")).await?;
    store.seal_again().await.context("cannot seal the datastore again")?;
    write(client, server, hash).await?;
    tracing::info!("everything that this server stores is sealed by the encryption configuration");
    Ok(())
}

async fn write(client: &Client, server: &str, state: &str) -> Result<(), Error> {
    let mut map = kinds::CONFIG_MAPS.new_object(NAMESPACE, ANNOUNCEMENTS);
    map.set(&["data"], value!({}));
    map.set(&["data", server], state);
    let key = Key::of(&map);
    match client.patch(&kinds::CONFIG_MAPS, &key, &Patch::Merge(map.clone()), "").await {
        Err(error) if error.is_not_found() => client.create(&kinds::CONFIG_MAPS, &map).await.map(drop),
        patched => patched.map(drop),
    }
}

/// The id of this server: the name of its machine, and what tells it from another server of the same machine.
fn server_id(data_dir: &Path) -> anyhow::Result<String> {
    let directory = data_dir.join(DIRECTORY);
    let path = directory.join(SERVER_ID);
    if let Ok(id) = std::fs::read_to_string(&path) {
        return Ok(id);
    }
    let mut random = [0; 4];
    getrandom::fill(&mut random).context("cannot read random bytes")?;
    let suffix: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("{}-{suffix}", crate::node::host_name());
    let failed = || format!("cannot write {}", path.display());
    files::private_directory(&directory).with_context(failed)?;
    files::replace_private(&path, &id).with_context(failed)?;
    Ok(id)
}
