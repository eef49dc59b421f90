//! The flags of the workload controllers.

use std::time::Duration;

use corten_controllers::{BatchOptions, HorizontalPodAutoscalerOptions, Options};

use crate::server::parse_duration;

#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct WorkloadFlags {
    /// Number of Jobs that are synced concurrently.
    #[arg(long, default_value_t = 5)]
    concurrent_job_syncs: usize,
    /// Number of CronJobs that are synced concurrently.
    #[arg(long, default_value_t = 5)]
    concurrent_cron_job_syncs: usize,
    /// Number of finished Jobs that the TTL controller syncs concurrently.
    #[arg(long, default_value_t = 5)]
    concurrent_ttl_after_finished_syncs: usize,
    /// Sync period of HorizontalPodAutoscalers.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// Stabilization window of scale-downs: the highest recommendation in it counts.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// Tolerance: the fraction by which a metric may miss its target without scaling.
    #[arg(long, default_value_t = 0.1)]
    horizontal_pod_autoscaler_tolerance: f64,
    /// Time after a pod's start in which its CPU samples may be skipped.
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// Time after a pod's start in which readiness changes count as initial readiness.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// Number of HorizontalPodAutoscalers that are synced concurrently.
    #[arg(long, default_value_t = 5)]
    concurrent_horizontal_pod_autoscaler_syncs: usize,
}

impl WorkloadFlags {
    /// Sets the options from the flags.
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
