//! What controllers can be told on the command line: upstream's flags, with upstream's defaults.

use corten_controllers::Options;

use super::node_flags::{AddressDefaults, NodeFlags};

#[derive(clap::Args)]
pub(crate) struct ControllerFlags {
    #[command(flatten)]
    nodes: NodeFlags,
}

impl ControllerFlags {
    /// Puts what was said into the options.
    pub(crate) fn apply(&self, options: &mut Options, addresses: &AddressDefaults<'_>) -> anyhow::Result<()> {
        self.nodes.apply(options, addresses).map_err(anyhow::Error::msg)
    }
}
