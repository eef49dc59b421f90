//! The controllers: everything kube-controller-manager does. One file per controller, all of the same four parts
//! (see `corten_reconcile::Controller`); what several of them decide alike is in the modules named after it.
//!
//! Controllers speak Kubernetes, through `corten_client`; they know nothing of the server they speak to. Their
//! `plan` functions are pure, so that a table of worlds and plans is a test of all they do.

mod aggregation;
mod bootstrap_signer;
mod certificates;
mod claims;
mod conditions;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod endpointslice;
mod garbage;
mod hashes;
mod history;
mod job;
mod jobs;
mod legacy_token_cleaner;
mod limits;
mod mirroring;
mod namespace;
mod namespaces;
mod nodelifecycle;
mod nodes;
mod nodettl;
mod placement;
mod podgc;
mod pods;
mod replicaset;
mod rootca;
mod secrets;
mod selectors;
mod serviceaccount;
mod serviceaccount_token;
mod servicecidr;
mod services;
mod statefulset;
mod tainteviction;
mod taints;
mod templates;
#[cfg(test)]
mod testing;
mod token_cleaner;
mod ttl;

use std::sync::Arc;

use corten_auth::authentication::SigningKey;
use corten_reconcile::Manager;

pub use certificates::signing::{AuthoritySource, Signer, SigningOptions};
pub use endpoints::EndpointsOptions;
pub use endpointslice::EndpointSliceOptions;
pub use legacy_token_cleaner::LegacyTokenCleanerOptions;
pub use mirroring::MirroringOptions;
pub use nodelifecycle::{NodeLifecycleOptions, Rates};

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
    pub node_lifecycle: NodeLifecycleOptions,
    /// What signs the service-account tokens that secrets hold; none to leave secrets alone.
    pub token_key: Option<Arc<SigningKey>>,
    pub signing: SigningOptions,
    pub legacy_token_cleaner: LegacyTokenCleanerOptions,
    pub endpoint_slices: EndpointSliceOptions,
    pub endpoints: EndpointsOptions,
    pub mirroring: MirroringOptions,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    disruption::start(manager);
    garbage::start(manager);
    legacy_token_cleaner::start(manager, options.legacy_token_cleaner);
    namespace::start(manager);
    nodelifecycle::start(manager, options.node_lifecycle);
    nodettl::start(manager);
    podgc::start(manager);
    tainteviction::start(manager);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(bootstrap_signer::BootstrapSigner);
    manager.run(certificates::approving::Approving);
    manager.run(certificates::cleaning::Cleaning);
    manager.run(certificates::signing::Signing(options.signing));
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(endpoints::Endpoints::new(options.endpoints));
    manager.run(endpointslice::EndpointSlices::new(options.endpoint_slices));
    manager.run(mirroring::Mirroring { options: options.mirroring });
    manager.run(job::Jobs::default());
    manager.run(job::OrphanPods);
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    if let Some(key) = options.token_key {
        let root_ca = options.root_ca.clone();
        manager.run(serviceaccount_token::ServiceAccountTokens { key, root_ca });
    }
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(statefulset::StatefulSets);
    manager.run(token_cleaner::TokenCleaner);
    manager.run(servicecidr::ServiceCidrs);
    manager.run(ttl::TtlAfterFinished);
}
