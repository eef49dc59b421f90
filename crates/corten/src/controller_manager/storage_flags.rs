//! The flags of the volume controllers.

use corten_controllers::Options;

#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct StorageFlags {
    /// Never force-detach volumes from unhealthy nodes after a timeout.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    disable_force_detach_on_timeout: bool,
    /// Have provisioners create volumes for claims.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_dynamic_provisioning: bool,
}

impl StorageFlags {
    pub(super) fn apply(&self, options: &mut Options) {
        options.attach_detach.disable_force_detach_on_timeout = self.disable_force_detach_on_timeout;
        options.persistent_volume_binder.enable_dynamic_provisioning = self.enable_dynamic_provisioning;
    }
}
