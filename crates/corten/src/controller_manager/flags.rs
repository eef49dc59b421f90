//! What controllers can be told on the command line: upstream's flags, with upstream's defaults.

use corten_controllers::Options;

use super::workload_flags::WorkloadFlags;

#[derive(clap::Args)]
pub(crate) struct ControllerFlags {
    #[command(flatten)]
    workloads: WorkloadFlags,
}

impl ControllerFlags {
    /// Puts what was said into the options.
    pub(crate) fn apply(&self, options: &mut Options) {
        self.workloads.apply(options);
    }
}
