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
mod endpoints;
mod endpointslice;
mod garbage;
mod hashes;
mod history;
mod limits;
mod mirroring;
mod namespace;
mod namespaces;
mod placement;
mod podgc;
mod pods;
mod quota;
mod replicaset;
mod rootca;
mod selectors;
mod serviceaccount;
mod servicecidr;
mod services;
mod templates;
#[cfg(test)]
mod testing;
mod ttl;

use corten_reconcile::Manager;

pub use endpoints::EndpointsOptions;
pub use endpointslice::EndpointSliceOptions;
pub use mirroring::MirroringOptions;
pub use quota::QuotaOptions;

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
    pub endpoint_slices: EndpointSliceOptions,
    pub endpoints: EndpointsOptions,
    pub mirroring: MirroringOptions,
    pub quota: QuotaOptions,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    garbage::start(manager);
    namespace::start(manager);
    podgc::start(manager);
    quota::start(manager, options.quota);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(endpoints::Endpoints::new(options.endpoints));
    manager.run(endpointslice::EndpointSlices::new(options.endpoint_slices));
    manager.run(mirroring::Mirroring { options: options.mirroring });
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(servicecidr::ServiceCidrs);
    manager.run(ttl::TtlAfterFinished);
}
