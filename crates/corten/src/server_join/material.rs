//! The material that a server hands over to a machine that joins as a server: keys, shared settings, the encryption
//! configuration, and the datastore. Sealed JSON on the way (`exchange`).

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::settings::Flags;

/// The datastore of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datastore {
    /// In the data directory of one server: no other can use it.
    Embedded,
    /// etcd servers that an administrator runs.
    Etcd,
    /// etcd members of the servers.
    Members(MemberSeed),
}

/// The etcd members that a server joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberSeed {
    /// Client URLs of members.
    pub(crate) urls: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The files of `corten_pki::shared_files`.
    pub(super) pki: Vec<(String, String)>,
    pub(super) settings: Flags,
    /// The EncryptionConfiguration, and true if it is used again whenever it changes.
    pub(super) encryption: Option<(String, bool)>,
    pub(super) datastore: Datastore,
    /// The UID of the namespace `kube-system`, which tells one cluster from another.
    pub(super) cluster: String,
}

impl Material {
    pub(super) fn to_json(&self) -> Value {
        let encryption = self.encryption.as_ref();
        json!({
            "pki": pairs(&self.pki),
            "settings": pairs(&self.settings),
            "encryption": encryption.map(|(text, reloads)| json!({"configuration": text, "reloads": reloads})),
            "datastore": match &self.datastore {
                Datastore::Embedded => json!("embedded"),
                Datastore::Etcd => json!("etcd"),
                Datastore::Members(seed) => json!({"members": seed.urls}),
            },
            "cluster": self.cluster,
        })
    }

    pub(super) fn from_json(value: &Value) -> anyhow::Result<Material> {
        let encryption = &value["encryption"];
        let encryption = encryption["configuration"]
            .as_str()
            .map(|text| (text.to_owned(), encryption["reloads"].as_bool().unwrap_or_default()));
        Ok(Material {
            pki: read_pairs(&value["pki"])?,
            settings: read_pairs(&value["settings"])?,
            encryption,
            datastore: match value["datastore"].as_str() {
                Some("embedded") => Datastore::Embedded,
                Some("etcd") => Datastore::Etcd,
                None if value["datastore"]["members"].is_array() => {
                    Datastore::Members(MemberSeed { urls: texts(&value["datastore"]["members"])? })
                }
                _ => bail!("the server has another kind of datastore; update Corten on this machine"),
            },
            cluster: value["cluster"].as_str().context("the response names no cluster")?.to_owned(),
        })
    }
}

pub(super) fn pairs(list: &[(String, String)]) -> Value {
    list.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str()))).collect()
}

pub(super) fn read_pairs(value: &Value) -> anyhow::Result<Vec<(String, String)>> {
    let members = value.as_object().context("the response is not complete")?;
    let pair = |(name, text): (&String, &Value)| Some((name.clone(), text.as_str()?.to_owned()));
    members.iter().map(pair).collect::<Option<_>>().context("the response is not complete")
}

/// A list of texts.
pub(super) fn texts(value: &Value) -> anyhow::Result<Vec<String>> {
    let items = value.as_array().context("the response is not complete")?;
    let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
    texts.collect::<Option<_>>().context("the response is not complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn material_is_read_as_it_is_written() {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut material = Material {
            pki: vec![pair("ca.crt", "c"), pair("ca.key", "k")],
            settings: vec![pair("cluster-domain", "cluster.local")],
            encryption: Some(("kind: EncryptionConfiguration".to_owned(), true)),
            datastore: Datastore::Etcd,
            cluster: "uid".to_owned(),
        };
        assert_eq!(Material::from_json(&material.to_json()).unwrap(), material);
        material.encryption = None;
        let members = MemberSeed { urls: vec!["https://192.0.2.1:2379".to_owned()] };
        for datastore in [Datastore::Embedded, Datastore::Members(members)] {
            material.datastore = datastore;
            assert_eq!(Material::from_json(&material.to_json()).unwrap(), material);
        }
        for broken in [json!({}), json!({"pki": {"a": 1}}), Value::Null] {
            assert!(Material::from_json(&broken).is_err(), "{broken}");
        }
    }
}
