//! The flags of all controllers: upstream's, with upstream's defaults.

use corten_controllers::Options;

use super::credentials::CredentialFlags;
use super::network_flags::NetworkFlags;
use super::node_flags::{AddressDefaults, NodeFlags};
use super::storage_flags::StorageFlags;
use super::workload_flags::WorkloadFlags;

#[derive(clap::Args)]
pub(crate) struct ControllerFlags {
    #[command(flatten)]
    workloads: WorkloadFlags,
    #[command(flatten)]
    credentials: CredentialFlags,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    nodes: NodeFlags,
    #[command(flatten)]
    storage: StorageFlags,
}

impl ControllerFlags {
    /// Sets the options from the flags.
    pub(crate) fn apply(&self, options: &mut Options, addresses: &AddressDefaults<'_>) -> anyhow::Result<()> {
        self.workloads.apply(options);
        self.credentials.apply(options);
        self.network.apply(options);
        self.storage.apply(options);
        self.nodes.apply(options, addresses).map_err(anyhow::Error::msg)
    }
}
