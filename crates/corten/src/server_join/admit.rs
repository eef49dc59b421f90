//! The running server's side: hands the cluster's keys to machines that prove that they have a server token.

use std::path::PathBuf;

use corten_apiserver::ServerJoins;
use corten_base::Clock;
use corten_pki::{ServerPki, shared_files};
use corten_store::Store;

use super::cluster_uid;
use super::exchange::{Refusal, verify};
use super::material::{Datastore, Material, MemberSeed};
use super::settings::{self, Flags};
use super::token::TokenKey;

/// The sources of what servers that join take from a server, besides its flags.
pub(crate) struct JoinSources {
    pub(crate) data_dir: PathBuf,
    /// The values of shared settings without a flag.
    pub(crate) defaults: Vec<(&'static str, String)>,
    /// The file of the encryption configuration, and true if it is used again whenever it changes.
    pub(crate) encryption: Option<(PathBuf, bool)>,
    /// The etcd member of this server.
    pub(crate) members: Option<MemberSeed>,
}

/// The files and settings of this server.
pub(crate) struct Joins {
    authority_pem: String,
    pki_dir: PathBuf,
    settings: Flags,
    encryption: Option<(PathBuf, bool)>,
    members: Option<MemberSeed>,
    store: Store,
    clock: Clock,
}

impl Joins {
    pub(crate) fn new(pki: &ServerPki, flags: &Flags, store: Store, sources: JoinSources) -> Joins {
        Joins {
            authority_pem: pki.ca_pem.clone(),
            pki_dir: sources.data_dir.join("pki"),
            settings: settings::shared(flags, &sources.defaults),
            encryption: sources.encryption,
            members: sources.members,
            store,
            clock: Clock::real(),
        }
    }

    fn material(&self) -> anyhow::Result<Material> {
        let pki = shared_files(&self.pki_dir)?.into_iter().map(|(name, text)| (name.to_owned(), text));
        let encryption = match &self.encryption {
            Some((file, reloads)) => Some((std::fs::read_to_string(file)?, *reloads)),
            None => None,
        };
        Ok(Material {
            pki: pki.collect(),
            settings: self.settings.clone(),
            encryption,
            datastore: match &self.members {
                Some(seed) => Datastore::Members(seed.clone()),
                None if self.store.is_shared() => Datastore::Etcd,
                None => Datastore::Embedded,
            },
            cluster: cluster_uid(&self.store)?,
        })
    }
}

impl ServerJoins for Joins {
    fn authority(&self) -> String {
        self.authority_pem.clone()
    }

    fn admit(&self, request: &[u8]) -> Result<Vec<u8>, String> {
        let internal = |error: anyhow::Error| {
            tracing::error!(
                err = format!("{error:#}"),
                "cannot read the cluster's keys for a joining server"
            );
            "the server cannot read its own keys".to_owned()
        };
        let key = std::fs::read_to_string(self.pki_dir.join("ca.key"));
        let key = TokenKey::of(&key.map_err(|error| internal(error.into()))?);
        let proven =
            verify(&key, request, self.clock.now().as_second()).map_err(|why: Refusal| why.to_string())?;
        let sealed =
            self.material().and_then(|material| proven.seal(&material.to_json())).map_err(internal)?;
        tracing::info!(token = proven.claims.id, "a server token was used");
        Ok(sealed)
    }
}
