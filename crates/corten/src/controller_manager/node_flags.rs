//! The flags of the node lifecycle, pod garbage collection and node IPAM controllers: upstream's, with upstream's
//! defaults.

use std::time::Duration;

use corten_controllers::{
    EvictionRates, MaskSizes, NodeIpamOptions, NodeLifecycleOptions, Options, PodGcOptions,
};

use crate::server::parse_duration;

#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct NodeFlags {
    /// Period of node health checks.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    node_monitor_period: Duration,
    /// Time without a heartbeat after which a running node is unhealthy.
    #[arg(long, default_value = "50s", value_parser = parse_duration)]
    node_monitor_grace_period: Duration,
    /// Time without a heartbeat after which a starting node is unhealthy.
    #[arg(long, default_value = "1m0s", value_parser = parse_duration)]
    node_startup_grace_period: Duration,
    /// Nodes per second that are tainted NoExecute in a healthy zone.
    #[arg(long, default_value_t = 0.1)]
    node_eviction_rate: f64,
    /// Nodes per second that are tainted NoExecute in an unhealthy zone; none if the zone is small.
    #[arg(long, default_value_t = 0.01)]
    secondary_node_eviction_rate: f64,
    /// Number of nodes up to which a zone is small.
    #[arg(long, default_value_t = 50)]
    large_cluster_size_threshold: usize,
    /// Fraction of nodes that are not ready, at least three, from which a zone is unhealthy.
    #[arg(long, default_value_t = 0.55)]
    unhealthy_zone_threshold: f64,
    /// Number of terminated pods that are kept; zero or less keeps all.
    #[arg(long, default_value_t = 12500, allow_hyphen_values = true)]
    terminated_pod_gc_threshold: i32,
    /// Allocate a pod CIDR of --cluster-cidr to every node.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allocate_node_cidrs: Option<bool>,
    /// Allocator of pod CIDRs. Only RangeAllocator is supported.
    #[arg(long, default_value = "RangeAllocator", value_parser = ["RangeAllocator"])]
    cidr_allocator_type: String,
    /// CIDR for pod IPs, or a dual-stack pair.
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// Prefix length of a node's pod CIDR [default: 24 for IPv4, 64 for IPv6].
    #[arg(long)]
    node_cidr_mask_size: Option<u32>,
    /// Prefix length of a node's IPv4 pod CIDR in a dual-stack cluster [default: 24].
    #[arg(long)]
    node_cidr_mask_size_ipv4: Option<u32>,
    /// Prefix length of a node's IPv6 pod CIDR in a dual-stack cluster [default: 64].
    #[arg(long)]
    node_cidr_mask_size_ipv6: Option<u32>,
}

/// Defaults of the address flags.
pub(crate) struct AddressDefaults<'a> {
    pub(crate) allocate: bool,
    pub(crate) cluster_cidr: &'a str,
    /// The Service CIDRs, which pods never get addresses of.
    pub(crate) services: String,
}

impl NodeFlags {
    /// Sets the options from the flags.
    pub(crate) fn apply(&self, options: &mut Options, defaults: &AddressDefaults<'_>) -> Result<(), String> {
        options.node_lifecycle = NodeLifecycleOptions {
            monitor_period: self.node_monitor_period,
            monitor_grace_period: self.node_monitor_grace_period,
            startup_grace_period: self.node_startup_grace_period,
            rates: EvictionRates {
                node_eviction_rate: self.node_eviction_rate,
                secondary_node_eviction_rate: self.secondary_node_eviction_rate,
                large_cluster_size_threshold: self.large_cluster_size_threshold,
                unhealthy_zone_threshold: self.unhealthy_zone_threshold,
            },
        };
        options.pod_gc = PodGcOptions { terminated_pod_threshold: self.terminated_pod_gc_threshold };
        let cluster_cidr = self.cluster_cidr.as_deref().unwrap_or(defaults.cluster_cidr);
        let masks = MaskSizes {
            any: self.node_cidr_mask_size,
            v4: self.node_cidr_mask_size_ipv4,
            v6: self.node_cidr_mask_size_ipv6,
        };
        options.node_ipam = match self.allocate_node_cidrs.unwrap_or(defaults.allocate) {
            true => Some(NodeIpamOptions::new(cluster_cidr, masks, &defaults.services)?),
            false => None,
        };
        Ok(())
    }
}
