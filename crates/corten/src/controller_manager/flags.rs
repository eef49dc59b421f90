//! What controllers can be told on the command line: upstream's flags, with upstream's defaults.

use corten_controllers::Options;

use super::node_flags::{AddressDefaults, NodeFlags};
use super::workload_flags::WorkloadFlags;

#[derive(clap::Args)]
pub(crate) struct ControllerFlags {
    /// Wait for as long as it takes until nodes that are not ready have unmounted their volumes.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    disable_force_detach_on_timeout: bool,
    /// Ask provisioners for volumes that claims need.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_dynamic_provisioning: bool,
    #[command(flatten)]
    nodes: NodeFlags,
    #[command(flatten)]
    workloads: WorkloadFlags,
}

impl ControllerFlags {
    /// Puts what was said into the options.
    pub(crate) fn apply(&self, options: &mut Options, addresses: &AddressDefaults<'_>) -> anyhow::Result<()> {
        options.attach_detach.disable_force_detach_on_timeout = self.disable_force_detach_on_timeout;
        options.persistent_volume_binder.enable_dynamic_provisioning = self.enable_dynamic_provisioning;
        self.workloads.apply(options);
        self.nodes.apply(options, addresses).map_err(anyhow::Error::msg)
    }
}
