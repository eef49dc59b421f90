//! The flags of the controllers that look after nodes and their pods' addresses: upstream's, with upstream's defaults.

use std::time::Duration;

use corten_controllers::{MaskSizes, NodeIpamOptions, NodeLifecycleOptions, Options, PodGcOptions, Rates};

use crate::server::parse_duration;

#[derive(clap::Args)]
pub(crate) struct NodeFlags {
    /// How often nodes are looked at.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    node_monitor_period: Duration,
    /// How long a running node may be silent before it is called unhealthy.
    #[arg(long, default_value = "50s", value_parser = parse_duration)]
    node_monitor_grace_period: Duration,
    /// How long a starting node may be silent before it is called unhealthy.
    #[arg(long, default_value = "1m0s", value_parser = parse_duration)]
    node_startup_grace_period: Duration,
    /// How many nodes a second lose their pods when they fail, in a zone that is healthy.
    #[arg(long, default_value_t = 0.1)]
    node_eviction_rate: f64,
    /// How many nodes a second lose their pods in a zone that is not healthy; none if it is small.
    #[arg(long, default_value_t = 0.01)]
    secondary_node_eviction_rate: f64,
    /// Up to how many nodes a zone is small.
    #[arg(long, default_value_t = 50)]
    large_cluster_size_threshold: usize,
    /// From which share of nodes on that are not ready, three or more, a zone is not healthy.
    #[arg(long, default_value_t = 0.55)]
    unhealthy_zone_threshold: f64,
    /// How many finished pods are kept; all if this is not positive.
    #[arg(long, default_value_t = 12500, allow_hyphen_values = true)]
    terminated_pod_gc_threshold: i32,
    /// Give every node its part of --cluster-cidr for its pods.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allocate_node_cidrs: Option<bool>,
    /// Who divides --cluster-cidr. Clouds that do it themselves are not known here.
    #[arg(long, default_value = "RangeAllocator", value_parser = ["RangeAllocator"])]
    cidr_allocator_type: String,
    /// Where the addresses of pods come from: a range, or one of each family.
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// The prefix of a node's part [default: 24 for IPv4, 64 for IPv6].
    #[arg(long)]
    node_cidr_mask_size: Option<u32>,
    /// The prefix of a node's part of IPv4 where there are both families [default: 24].
    #[arg(long)]
    node_cidr_mask_size_ipv4: Option<u32>,
    /// The prefix of a node's part of IPv6 where there are both families [default: 64].
    #[arg(long)]
    node_cidr_mask_size_ipv6: Option<u32>,
}

/// What holds for addresses where flags say nothing.
pub(crate) struct AddressDefaults<'a> {
    pub(crate) allocate: bool,
    pub(crate) cluster_cidr: &'a str,
    /// What is not for pods.
    pub(crate) services: String,
}

impl NodeFlags {
    /// Puts what was said into the options.
    pub(crate) fn apply(&self, options: &mut Options, defaults: &AddressDefaults<'_>) -> Result<(), String> {
        options.node_lifecycle = NodeLifecycleOptions {
            monitor_period: self.node_monitor_period,
            monitor_grace: self.node_monitor_grace_period,
            startup_grace: self.node_startup_grace_period,
            rates: Rates {
                normal: self.node_eviction_rate,
                secondary: self.secondary_node_eviction_rate,
                large_zone: self.large_cluster_size_threshold,
                unhealthy_share: self.unhealthy_zone_threshold,
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
