//! Node lifecycle: notices when nodes fall silent, and says so by conditions and taints.
//!
//! Watches nodes, their leases and their pods. Writes the conditions of nodes nobody hears of any more, takes their
//! pods out of service, and keeps the taints that follow from conditions: those that keep pods away at once, those
//! that end pods one node after another, slower when many nodes of a zone are down and not at all when all are.
//! Never deletes a pod, and never believes a node dead before its grace period is over.

mod health;
mod latecomers;
mod monitor;
mod upkeep;
mod writes;
mod zones;

use std::time::Duration;

use corten_reconcile::Manager;

pub use zones::Rates;

const NAME: &str = "node-lifecycle-controller";

/// How nodes are watched over.
#[derive(Debug, Clone)]
pub struct NodeLifecycleOptions {
    /// How often nodes are looked at.
    pub monitor_period: Duration,
    /// How long a node may be silent.
    pub monitor_grace: Duration,
    /// How long one may be silent that has never said anything.
    pub startup_grace: Duration,
    /// How many nodes a second are given up.
    pub rates: Rates,
}

impl Default for NodeLifecycleOptions {
    fn default() -> NodeLifecycleOptions {
        NodeLifecycleOptions {
            monitor_period: Duration::from_secs(5),
            monitor_grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            rates: Rates::default(),
        }
    }
}

pub(crate) fn start(manager: &Manager, options: NodeLifecycleOptions) {
    if !manager.is_selected(NAME) {
        return;
    }
    manager.run(upkeep::Upkeep);
    latecomers::start(manager);
    manager.spawn(monitor::Monitor::new(manager, options).run());
}
