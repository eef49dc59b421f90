//! The documents of OCI and Docker images, as far as they are used here. Both write the same documents with other media
//! types.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Digest, ImageError};

/// Media types.
pub mod media {
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

    /// All media types that a registry may return for an image.
    pub const MANIFESTS: [&str; 4] = [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST];

    pub fn is_index(media_type: &str) -> bool {
        media_type == OCI_INDEX || media_type == DOCKER_INDEX
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    pub manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

/// An image's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub architecture: String,
    pub os: String,
    pub config: Process,
    pub rootfs: RootFs,
}

/// The process that an image runs by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Process {
    pub user: String,
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub cmd: Vec<String>,
    pub working_dir: String,
    pub stop_signal: String,
    /// Paths that are volumes; the values are empty.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, Empty>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootFs {
    #[serde(rename = "type")]
    pub kind: String,
    pub diff_ids: Vec<Digest>,
}

/// Docker writes `null` for empty values.
fn nullable<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Platform {
    /// The platform of this machine.
    pub fn here() -> Platform {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        Platform {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
            variant: variant.to_owned(),
        }
    }

    fn runs(&self, other: &Platform) -> bool {
        let variant = other.variant.is_empty() || other.variant == self.variant;
        self.os == other.os && self.architecture == other.architecture && variant
    }

    fn name(&self) -> String {
        [&self.os, &self.architecture, &self.variant]
            .into_iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("/")
    }
}

impl Index {
    /// The manifest for a platform. One without a platform is taken for any.
    pub fn choose(&self, platform: &Platform) -> Result<&Descriptor, ImageError> {
        let named = |descriptor: &&Descriptor| descriptor.platform.as_ref().is_some_and(|p| platform.runs(p));
        let unnamed = |descriptor: &&Descriptor| descriptor.platform.is_none();
        let found = self.manifests.iter().find(named).or_else(|| self.manifests.iter().find(unnamed));
        found.ok_or_else(|| ImageError::NoPlatform {
            platform: platform.name(),
            available: self
                .manifests
                .iter()
                .filter_map(|m| m.platform.as_ref())
                .map(Platform::name)
                .collect(),
        })
    }
}

impl Config {
    /// The ids of every stack of layers, from the lowest up.
    pub fn chain_ids(&self) -> Vec<Digest> {
        let mut chain: Vec<Digest> = Vec::with_capacity(self.rootfs.diff_ids.len());
        for diff in &self.rootfs.diff_ids {
            let id = chain
                .last()
                .map_or_else(|| diff.clone(), |below| Digest::of(format!("{below} {diff}").as_bytes()));
            chain.push(id);
        }
        chain
    }
}

/// Refuses a document that is an index and a manifest at once (CVE-2021-41190): the same digest would stand for two images,
/// depending on the media type that is sent with it.
pub(crate) fn check_one_kind(bytes: &[u8]) -> Result<(), ImageError> {
    #[derive(Deserialize)]
    struct Members {
        manifests: Option<IgnoredAny>,
        config: Option<IgnoredAny>,
        layers: Option<IgnoredAny>,
    }
    let Members { manifests, config, layers } = document(bytes, "the manifest")?;
    match manifests.is_some() && (config.is_some() || layers.is_some()) {
        true => Err(ImageError::Malformed("the manifest is an index at the same time".to_owned())),
        false => Ok(()),
    }
}

/// Decodes a document; an error names its kind.
pub(crate) fn document<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ImageError::Malformed(format!("{what} is malformed: {error}")))
}
