//! Node lifecycle controller: detects unresponsive nodes and reports them by conditions and taints.
//!
//! Watches nodes, their leases and their pods. Sets the conditions of unresponsive nodes to `Unknown`, marks their pods
//! not ready, and reconciles the taints that follow from conditions: NoSchedule taints at once, NoExecute taints node
//! by node, slower in a partially disrupted zone and not at all while every zone is fully disrupted. Never deletes a
//! pod, and never marks a node before its grace period is over.
//!
//! `monitor` is not a `Controller`: it reconciles all nodes together, once per period, because rates and disruption are
//! properties of zones.

mod health;
mod monitor;
mod node_updates;
mod node_writer;
mod pod_updates;
mod zones;

use std::time::Duration;

use corten_reconcile::Manager;

pub use zones::EvictionRates;

const NAME: &str = "node-lifecycle-controller";

/// Options of the node lifecycle controller.
#[derive(Debug, Clone)]
pub struct NodeLifecycleOptions {
    /// The interval of health checks.
    pub monitor_period: Duration,
    /// The time without a heartbeat after which a node is marked unhealthy.
    pub monitor_grace_period: Duration,
    /// The same for a node that has never posted a status.
    pub startup_grace_period: Duration,
    /// The rates of NoExecute tainting.
    pub rates: EvictionRates,
}

impl Default for NodeLifecycleOptions {
    fn default() -> NodeLifecycleOptions {
        NodeLifecycleOptions {
            monitor_period: Duration::from_secs(5),
            monitor_grace_period: Duration::from_secs(50),
            startup_grace_period: Duration::from_secs(60),
            rates: EvictionRates::default(),
        }
    }
}

pub(crate) fn start(manager: &Manager, options: NodeLifecycleOptions) {
    if !manager.is_selected(NAME) {
        return;
    }
    manager.run(node_updates::NodeUpdates);
    manager.run(pod_updates::PodUpdates);
    manager.spawn(monitor::Monitor::new(manager, options).run());
}
