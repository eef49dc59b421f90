//! Nodes that exist only in the API, for `corten server --simulated-nodes`: they register, renew their leases and report
//! their status, and their pods go through the phases that a kubelet would report, although nothing runs.
//!
//! Watches nodes and pods through the manager's caches. Every node and its pods are written as that node's user, so a
//! simulated kubelet has no more rights than a real one. Never touches pods of other nodes. There is no task per pod or
//! node: one task renews all leases, and a few workers sync the pods that changed.

mod conditions;
mod lifecycle;
mod nodes;
mod placements;
mod pods;

use std::sync::Arc;

use corten_client::Client;
use corten_reconcile::Manager;

pub use lifecycle::{EXIT_CODE, RUN_FOR};
pub use nodes::UNPLUGGED;

use placements::Placements;

/// Makes clients that act as a user with groups.
pub type Identities = Arc<dyn Fn(&str, &[&str]) -> Client + Send + Sync>;

/// The nodes to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub nodes: usize,
    /// True if a controller allocates pod CIDRs. If not, nodes set their own.
    pub networks_assigned: bool,
}

/// Starts the nodes; they stop when the manager is dropped.
pub fn start(manager: &Manager, identities: &Identities, options: Options) {
    let node = |index| nodes::Node::new(index, identities, options.networks_assigned);
    let nodes: Arc<[_]> = (0..options.nodes).map(node).collect::<Vec<_>>().into();
    let placements = Arc::new(Placements::default());
    pods::start(manager, nodes.clone(), placements);
    manager.spawn(nodes::register(nodes.clone(), manager.clock().clone()));
    manager.spawn(nodes::renew_leases(nodes, manager.caches().clone(), manager.clock().clone()));
}
