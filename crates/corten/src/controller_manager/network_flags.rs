//! What the controllers of endpoints and of quotas can be told on the command line: upstream's flags, with
//! upstream's defaults.

use std::time::Duration;

use corten_controllers::Options;

use crate::server::parse_duration;

#[derive(clap::Args)]
pub(crate) struct NetworkFlags {
    /// How many services' Endpoints are worked on at a time.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_endpoint_syncs: usize,
    /// How many services' EndpointSlices are worked on at a time.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_service_endpoint_syncs: usize,
    /// How many resource quotas are worked on at a time.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    concurrent_resource_quota_syncs: usize,
    /// How long changes of pods are collected before Endpoints are written.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    endpoint_updates_batch_period: Duration,
    /// How long changes of pods are collected before EndpointSlices are written.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    endpointslice_updates_batch_period: Duration,
    /// The most endpoints in one EndpointSlice.
    #[arg(long, default_value_t = 100, value_parser = up_to_a_thousand)]
    max_endpoints_per_slice: usize,
    /// How many Endpoints are mirrored at a time.
    #[arg(long, default_value_t = 5, value_parser = up_to_a_thousand)]
    mirroring_concurrent_service_endpoint_syncs: usize,
    /// How long changes of mirroring EndpointSlices are collected before they are looked at.
    #[arg(long, default_value = "0s", value_parser = parse_delay)]
    mirroring_endpointslice_updates_batch_period: Duration,
    /// The most addresses of one subset of Endpoints that are mirrored.
    #[arg(long, default_value_t = 1000, value_parser = up_to_a_thousand)]
    mirroring_max_endpoints_per_subset: usize,
    /// How often everything that resource quotas limit is counted anew.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    resource_quota_sync_period: Duration,
}

impl NetworkFlags {
    /// Puts what was said into the options.
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

/// Unlike other times, these may be none at all.
fn parse_delay(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { parse_duration(text) }
}

fn up_to_a_thousand(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err(format!("{text:?} is not between 1 and 1000")),
    }
}
