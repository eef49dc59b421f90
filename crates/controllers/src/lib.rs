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
mod placement;
mod podgc;
mod pods;
mod replicaset;
mod rootca;
mod selectors;
mod serviceaccount;
mod storage;
mod templates;
#[cfg(test)]
mod testing;
mod ttl;

use corten_reconcile::Manager;

pub use storage::attach::AttachOptions;
pub use storage::binder::BinderOptions;
pub use storage::local_path::{LocalPathOptions, PROVISIONER as LOCAL_PATH_PROVISIONER};

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The certificates by which pods know the API server, in PEM.
    pub root_ca: String,
    pub attach_detach: AttachOptions,
    pub persistent_volume_binder: BinderOptions,
    /// How volumes are made of directories on nodes; none to make none.
    pub local_path: Option<LocalPathOptions>,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    garbage::start(manager);
    namespace::start(manager);
    podgc::start(manager);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(storage::attach::Attacher::new(manager, options.attach_detach));
    manager.run(storage::binder::Binder::new(manager, options.persistent_volume_binder));
    manager.run(storage::claim_protection::ClaimProtection::new(manager));
    manager.run(storage::ephemeral::EphemeralVolumes::new(manager));
    manager.run(storage::expand::Expander);
    if let Some(options) = options.local_path {
        manager.run(storage::local_path::LocalPath { options });
    }
    manager.run(storage::volume_protection::VolumeProtection);
    manager.run(ttl::TtlAfterFinished);
}
