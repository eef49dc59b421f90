//! The controllers: everything kube-controller-manager does. One file per controller, all of the same four parts
//! (see `corten_reconcile::Controller`); what several of them decide alike is in the modules named after it.
//!
//! Controllers speak Kubernetes, through `corten_client`; they know nothing of the server they speak to. Their
//! `plan` functions are pure, so that a table of worlds and plans is a test of all they do.

mod aggregation;
mod claims;
mod conditions;
mod cronjob;
mod daemonset;
mod deployment;
mod garbage;
mod hashes;
mod history;
mod job;
mod jobs;
mod limits;
mod namespace;
mod namespaces;
mod placement;
mod podgc;
mod pods;
mod replicaset;
mod rootca;
mod selectors;
mod serviceaccount;
mod templates;
#[cfg(test)]
mod testing;
mod ttl;

use corten_reconcile::Manager;
use jiff::tz::TimeZone;

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    garbage::start(manager);
    namespace::start(manager);
    podgc::start(manager);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(cronjob::CronJobs::new(TimeZone::system()));
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(job::Jobs::default());
    manager.run(job::OrphanPods);
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(ttl::TtlAfterFinished);
}
