//! The flags of the endpoint and quota controllers: upstream's, with upstream's defaults.

use std::time::Duration;

use corten_controllers::Options;

use crate::server::parse_duration;

#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct NetworkFlags {
    /// Number of Services whose Endpoints are synced concurrently.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_endpoint_syncs: usize,
    /// Number of Services whose EndpointSlices are synced concurrently.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_service_endpoint_syncs: usize,
    /// Number of ResourceQuotas that are synced concurrently.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_resource_quota_syncs: usize,
    /// Time to batch pod changes before Endpoints are updated.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    endpoint_updates_batch_period: Duration,
    /// Time to batch pod changes before EndpointSlices are updated.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    endpointslice_updates_batch_period: Duration,
    /// Maximum number of endpoints per EndpointSlice.
    #[arg(long, default_value_t = 100, value_parser = up_to_a_thousand)]
    max_endpoints_per_slice: usize,
    /// Number of Endpoints that are mirrored concurrently.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    mirroring_concurrent_service_endpoint_syncs: usize,
    /// Time to batch changes of mirrored EndpointSlices before they are synced.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    mirroring_endpointslice_updates_batch_period: Duration,
    /// Maximum number of mirrored addresses per Endpoints subset.
    #[arg(long, default_value_t = 1000, value_parser = up_to_a_thousand)]
    mirroring_max_endpoints_per_subset: usize,
    /// Period of full recalculation of ResourceQuota usage.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    resource_quota_sync_period: Duration,
}

impl NetworkFlags {
    /// Sets the options from the flags.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.endpoints.concurrent_syncs = self.concurrent_endpoint_syncs;
        options.endpoints.updates_batch_period = self.endpoint_updates_batch_period;
        options.endpoint_slices.concurrent_syncs = self.concurrent_service_endpoint_syncs;
        options.endpoint_slices.max_endpoints_per_slice = self.max_endpoints_per_slice;
        options.endpoint_slices.updates_batch_period = self.endpointslice_updates_batch_period;
        options.mirroring.concurrent_syncs = self.mirroring_concurrent_service_endpoint_syncs;
        options.mirroring.max_endpoints_per_subset = self.mirroring_max_endpoints_per_subset;
        options.mirroring.updates_batch_period = self.mirroring_endpointslice_updates_batch_period;
        options.quota.concurrent_syncs = self.concurrent_resource_quota_syncs;
        options.quota.sync_period = self.resource_quota_sync_period;
    }
}

/// Parses a duration that, unlike others, may be zero.
fn parse_delay(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { parse_duration(text) }
}

fn up_to_a_thousand(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err(format!("{text:?} is not between 1 and 1000")),
    }
}
