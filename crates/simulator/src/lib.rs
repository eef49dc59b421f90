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

/// Starts some nodes; they end with the manager.
pub fn start(manager: &Manager, identities: &Identities, count: usize) {
    let nodes: Arc<[_]> =
        (0..count).map(|index| nodes::Node::new(index, identities)).collect::<Vec<_>>().into();
    let placements = Arc::new(Placements::default());
    pods::start(manager, nodes.clone(), placements);
    manager.spawn(nodes::beat(nodes, manager.caches().clone(), manager.clock().clone()));
}
