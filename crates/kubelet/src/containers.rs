//! Pods' sandboxes and containers: their configuration for the runtime, start, stop and observed state.
//!
//! The runtime is reached through `corten_container` alone. Configuration (`runtime_config`, `environment`,
//! `downward_api`) is pure.

pub(crate) mod backoff;
pub(crate) mod downward_api;
pub(crate) mod environment;
pub(crate) mod expansion;
pub(crate) mod hooks;
pub(crate) mod images;
pub(crate) mod kill;
pub(crate) mod labels;
pub(crate) mod observed;
pub(crate) mod pleg;
pub(crate) mod pull_secrets;
pub(crate) mod pulled_images;
pub(crate) mod runtime_class;
pub(crate) mod runtime_config;
pub(crate) mod shared_file;
pub(crate) mod start;
pub(crate) mod termination_message;

use std::sync::Arc;

use corten_container::Runtime;

use images::ImageManager;
use runtime_config::NodeConfig;

/// The container runtime, its images, and the settings that all containers of the node share.
pub(crate) struct Containers {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) images: ImageManager,
    pub(crate) config: NodeConfig,
    /// The runtime's name, the prefix of container ids in pod status.
    pub(crate) runtime_name: String,
}
