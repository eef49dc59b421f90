//! The controllers: everything kube-controller-manager does. One file per controller, all of the same four parts
//! (see `corten_reconcile::Controller`); what several of them decide alike is in the modules named after it.
//!
//! Controllers speak Kubernetes, through `corten_client`; they know nothing of the server they speak to. Their
//! `plan` functions are pure, so that a table of worlds and plans is a test of all they do.

mod aggregation;
mod claims;
mod conditions;
mod daemonset;
mod deployment;
mod garbage;
mod hashes;
mod history;
mod limits;
mod namespace;
mod namespaces;
mod nodeipam;
mod nodelifecycle;
mod nodes;
mod nodettl;
mod placement;
mod podgc;
mod pods;
mod replicaset;
mod rootca;
mod selectors;
mod serviceaccount;
mod tainteviction;
mod taints;
mod templates;
#[cfg(test)]
mod testing;
mod ttl;

use corten_reconcile::Manager;

pub use nodeipam::{MaskSizes, NodeIpamOptions};
pub use nodelifecycle::{NodeLifecycleOptions, Rates};
pub use podgc::PodGcOptions;

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
    /// Where the addresses of pods come from; none if nodes get them elsewhere.
    pub node_ipam: Option<NodeIpamOptions>,
    pub node_lifecycle: NodeLifecycleOptions,
    pub pod_gc: PodGcOptions,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    garbage::start(manager);
    namespace::start(manager);
    nodeipam::start(manager, options.node_ipam.as_ref());
    nodelifecycle::start(manager, options.node_lifecycle);
    nodettl::start(manager);
    podgc::start(manager, options.pod_gc);
    tainteviction::start(manager);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(ttl::TtlAfterFinished);
}
