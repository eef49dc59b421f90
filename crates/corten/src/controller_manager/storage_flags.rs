//! What the controllers of volumes and claims can be told.

use corten_controllers::Options;

#[derive(clap::Args)]
pub(crate) struct StorageFlags {
    /// Wait for as long as it takes until nodes that are not ready have unmounted their volumes.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    disable_force_detach_on_timeout: bool,
    /// Ask provisioners for volumes that claims need.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_dynamic_provisioning: bool,
}

impl StorageFlags {
    pub(super) fn apply(&self, options: &mut Options) {
        options.attach_detach.disable_force_detach_on_timeout = self.disable_force_detach_on_timeout;
        options.persistent_volume_binder.enable_dynamic_provisioning = self.enable_dynamic_provisioning;
    }
}
