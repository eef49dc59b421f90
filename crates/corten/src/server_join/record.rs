//! The record in the data directory of a server that joined: the cluster and its settings, so that a later start needs neither
//! the token nor another server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corten_base::files;
use serde_json::{Value, json};

use super::material::{Datastore, Material, MemberSeed, pairs, read_pairs, texts};
use super::settings::Flags;

const RECORD: &str = "joined.json";
const ENCRYPTION: &str = "encryption-provider-config";

pub(super) struct Record {
    pub(super) cluster: String,
    pub(super) settings: Flags,
    /// The file with the cluster's encryption configuration, and true if it is used again whenever it changes.
    pub(super) encryption: Option<(PathBuf, bool)>,
    /// The etcd members that this server's member joins.
    pub(super) members: Option<MemberSeed>,
}

impl Record {
    /// The record of this server; none if it did not join.
    pub(super) fn load(data_dir: &Path) -> anyhow::Result<Option<Record>> {
        let path = data_dir.join(RECORD);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let read = || {
            let value: Value = serde_json::from_str(&text)?;
            let reloads = value["encryption"].as_bool();
            anyhow::Ok(Record {
                cluster: value["cluster"].as_str().context("it names no cluster")?.to_owned(),
                settings: read_pairs(&value["settings"])?,
                encryption: reloads.map(|reloads| (data_dir.join(ENCRYPTION), reloads)),
                members: match &value["members"] {
                    Value::Null => None,
                    members => Some(MemberSeed { urls: texts(members)? }),
                },
            })
        };
        read().map(Some).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Writes the record of a cluster. `keeps_encryption` says that this server has no encryption configuration of its own.
    pub(super) fn write(
        data_dir: &Path,
        material: &Material,
        keeps_encryption: bool,
    ) -> anyhow::Result<Record> {
        let encryption = material.encryption.as_ref().filter(|_| keeps_encryption);
        if let Some((text, _)) = encryption {
            let path = data_dir.join(ENCRYPTION);
            files::replace_private(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let value = json!({
            "cluster": material.cluster, "settings": pairs(&material.settings),
            "encryption": encryption.map(|(_, reloads)| *reloads),
            "members": match &material.datastore {
                Datastore::Members(seed) => json!(seed.urls),
                Datastore::Embedded | Datastore::Etcd => Value::Null,
            },
        });
        let path = data_dir.join(RECORD);
        files::replace_private(&path, value.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Record::load(data_dir)?.context("the record of this server is missing")
    }
}
