//! What the controllers of workloads can be told on the command line.

use std::time::Duration;

use corten_controllers::{BatchOptions, HorizontalPodAutoscalerOptions, Options};

use crate::server::parse_duration;

#[derive(clap::Args)]
pub(crate) struct WorkloadFlags {
    /// How many jobs are looked at at a time.
    #[arg(long, default_value_t = 5)]
    concurrent_job_syncs: usize,
    /// How many cron jobs are looked at at a time.
    #[arg(long, default_value_t = 5)]
    concurrent_cron_job_syncs: usize,
    /// How many finished jobs are looked at at a time.
    #[arg(long, default_value_t = 5)]
    concurrent_ttl_after_finished_syncs: usize,
    /// How often each horizontal pod autoscaler is looked at.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// For how long autoscalers look back, never to shrink below what they recommended in that time.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// By how much, as a share, a metric may miss its target before an autoscaler acts.
    #[arg(long, default_value_t = 0.1)]
    horizontal_pod_autoscaler_tolerance: f64,
    /// For how long after a pod's start its use of CPU may be left out.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// For how long after a pod's start a change of its readiness counts as the first.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// How many autoscalers are looked at at a time.
    #[arg(long, default_value_t = 5)]
    concurrent_horizontal_pod_autoscaler_syncs: usize,
}

impl WorkloadFlags {
    /// Puts what was said into the options.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.batch = BatchOptions {
            concurrent_job_syncs: self.concurrent_job_syncs.max(1),
            concurrent_cron_job_syncs: self.concurrent_cron_job_syncs.max(1),
            concurrent_ttl_after_finished_syncs: self.concurrent_ttl_after_finished_syncs.max(1),
        };
        options.horizontal_pod_autoscaler = HorizontalPodAutoscalerOptions {
            sync_period: self.horizontal_pod_autoscaler_sync_period,
            downscale_stabilization: self.horizontal_pod_autoscaler_downscale_stabilization,
            tolerance: self.horizontal_pod_autoscaler_tolerance,
            cpu_initialization_period: self.horizontal_pod_autoscaler_cpu_initialization_period,
            initial_readiness_delay: self.horizontal_pod_autoscaler_initial_readiness_delay,
            concurrent_syncs: self.concurrent_horizontal_pod_autoscaler_syncs.max(1),
        };
    }
}
