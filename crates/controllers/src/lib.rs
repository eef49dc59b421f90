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
mod disruption;
mod garbage;
mod hashes;
mod history;
mod limits;
mod namespace;
mod namespaces;
mod placement;
mod podautoscaler;
mod podgc;
mod pods;
mod replicaset;
mod resources;
mod rootca;
mod selectors;
mod serviceaccount;
mod statefulset;
mod templates;
#[cfg(test)]
mod testing;
mod ttl;

use corten_reconcile::Manager;

pub use podautoscaler::HorizontalPodAutoscalerOptions;

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
    pub horizontal_pod_autoscaler: HorizontalPodAutoscalerOptions,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    disruption::start(manager);
    garbage::start(manager);
    namespace::start(manager);
    podgc::start(manager);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(podautoscaler::HorizontalPodAutoscalers::new(options.horizontal_pod_autoscaler));
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(statefulset::StatefulSets);
    manager.run(ttl::TtlAfterFinished);
}
