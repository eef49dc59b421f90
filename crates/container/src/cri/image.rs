//! Images: their names, their status, and credentials to pull them.

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
    /// The image as the pod's spec names it.
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
    /// The image's user, if it is a number.
    pub uid: Option<i64>,
    /// The image's user, if it is a name.
    pub username: String,
    pub spec: ImageSpec,
    /// Never garbage collected.
    pub pinned: bool,
}

/// Credentials for a registry. `Debug` never prints them.
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

/// The used space of a file system.
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

/// The progress of a pull.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub bytes: u64,
    /// 0 as long as it is unknown.
    pub total_bytes: u64,
    pub layers: usize,
    pub total_layers: usize,
}

/// Receives the progress of a pull. Called often and from any thread, so it must be quick.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(PullProgress) + Send + Sync>);

impl Progress {
    pub fn new(report: impl Fn(PullProgress) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(report))
    }

    /// Discards the progress.
    pub fn ignored() -> Progress {
        Progress::new(|_| ())
    }

    pub fn report(&self, progress: PullProgress) {
        (self.0)(progress);
    }
}
