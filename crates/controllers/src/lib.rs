//! The controllers: everything kube-controller-manager does. One file per controller, all of the same four parts
//! (see `corten_reconcile::Controller`); what several of them decide alike is in the modules named after it.
//!
//! Controllers speak Kubernetes, through `corten_client`; they know nothing of the server they speak to. Their
//! `plan` functions are pure, so that a table of worlds and plans is a test of all they do.

mod claims;
mod conditions;
mod daemonset;
mod deployment;
mod hashes;
mod history;
mod limits;
mod placement;
mod pods;
mod replicaset;
mod selectors;
mod templates;
#[cfg(test)]
mod testing;

use corten_reconcile::Manager;

/// Starts every controller.
pub fn start(manager: &Manager) {
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(replicaset::REPLICATION_CONTROLLERS);
}
