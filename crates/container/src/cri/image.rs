//! Images: their names, what is known of them, and who may pull them.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Map;

/// An image by name, digest or id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageSpec {
    pub image: String,
    pub annotations: Map,
    /// What the pod says, before anything was resolved.
    pub user_specified_image: String,
    pub runtime_handler: String,
}

impl ImageSpec {
    pub fn new(image: impl Into<String>) -> ImageSpec {
        ImageSpec { image: image.into(), ..ImageSpec::default() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The digest of its configuration.
    pub id: String,
    pub repo_tags: Vec<String>,
    pub repo_digests: Vec<String>,
    pub size: u64,
    /// Who it runs as, if it says so by number.
    pub uid: Option<i64>,
    /// Who it runs as, if it says so by name.
    pub username: String,
    pub spec: ImageSpec,
    /// Never to be collected.
    pub pinned: bool,
}

/// Credentials for a registry. Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthConfig {
    pub username: String,
    pub password: String,
    /// `username:password` in base64, in place of both.
    pub auth: String,
    pub server_address: String,
    pub identity_token: String,
    pub registry_token: String,
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig").field("server_address", &self.server_address).finish_non_exhaustive()
    }
}

/// How full a file system is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    pub timestamp: Timestamp,
    pub mountpoint: String,
    pub used_bytes: u64,
    pub inodes_used: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageFsInfo {
    pub image_filesystems: Vec<FilesystemUsage>,
    pub container_filesystems: Vec<FilesystemUsage>,
}

/// How far a pull is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub bytes: u64,
    /// 0 as long as it is not known.
    pub total_bytes: u64,
    pub layers: usize,
    pub total_layers: usize,
}

/// Who is told how far a pull is. Called often and from anywhere: it must be quick.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(PullProgress) + Send + Sync>);

impl Progress {
    pub fn new(tell: impl Fn(PullProgress) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(tell))
    }

    /// Nobody wants to know.
    pub fn ignored() -> Progress {
        Progress::new(|_| ())
    }

    pub fn tell(&self, progress: PullProgress) {
        (self.0)(progress);
    }
}
