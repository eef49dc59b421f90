//! Nodes that exist only in the API: they register, renew their leases and report, and their pods become what a
//! kubelet would make of them, although nothing runs. What `corten server --simulated-nodes` starts.
//!
//! Watches nodes and pods through the caches it is given. Every node and its pods are written in the node's own
//! identity, so that what a kubelet may not do a simulated one may not either. Never touches pods of other nodes.
//! There is no task per pod or per node: one beats for all, a few walk through the pods that changed.

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

/// Clients in the identity of a user and its groups.
pub type Identities = Arc<dyn Fn(&str, &[&str]) -> Client + Send + Sync>;

/// What to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub nodes: usize,
    /// Whether nodes are given their pods' addresses by somebody. If not, they bring their own.
    pub networks_assigned: bool,
}

/// Starts the nodes; they end with the manager.
pub fn start(manager: &Manager, identities: &Identities, options: Options) {
    let node = |index| nodes::Node::new(index, identities, options.networks_assigned);
    let nodes: Arc<[_]> = (0..options.nodes).map(node).collect::<Vec<_>>().into();
    let placements = Arc::new(Placements::default());
    pods::start(manager, nodes.clone(), placements);
    manager.spawn(nodes::register(nodes.clone(), manager.clock().clone()));
    manager.spawn(nodes::beat(nodes, manager.caches().clone(), manager.clock().clone()));
}
