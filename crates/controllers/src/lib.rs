//! The controllers of kube-controller-manager. One file per controller, all of the same four parts (see
//! `corten_reconcile::Controller`); decisions that several of them share are in the modules named after them.
//!
//! Controllers speak the Kubernetes API through `corten_client`; they know nothing of the server. Their `plan`
//! functions are pure, so that a table of worlds and plans tests all they do.

mod admission_policy_status;
mod aggregation;
mod bootstrap_signer;
mod certificates;
mod claims;
mod conditions;
mod cronjob;
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
mod nodeipam;
mod nodelifecycle;
mod nodes;
mod nodettl;
mod podautoscaler;
mod podgc;
mod pods;
mod quota;
mod replicaset;
mod resources;
mod rootca;
mod secrets;
mod selectors;
mod serviceaccount;
mod serviceaccount_token;
mod servicecidr;
mod services;
mod statefulset;
mod storage;
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
use jiff::tz::TimeZone;

pub use certificates::ownership::{Reserved, is_vouched_for};
pub use certificates::signing::{AuthoritySource, Signer, SigningOptions};
pub use endpoints::EndpointsOptions;
pub use endpointslice::EndpointSliceOptions;
pub use jobs::BatchOptions;
pub use legacy_token_cleaner::LegacyTokenCleanerOptions;
pub use mirroring::MirroringOptions;
pub use nodeipam::{MaskSizes, NodeIpamOptions};
pub use nodelifecycle::{EvictionRates, NodeLifecycleOptions};
pub use podautoscaler::HorizontalPodAutoscalerOptions;
pub use podgc::PodGcOptions;
pub use quota::QuotaOptions;
pub use storage::attach::AttachOptions;
pub use storage::binder::BinderOptions;
pub use storage::local_path::{LocalPathOptions, PROVISIONER as LOCAL_PATH_PROVISIONER};

/// Options of the controllers.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The CA bundle by which pods verify the API server, in PEM.
    pub root_ca: String,
    pub attach_detach: AttachOptions,
    pub batch: BatchOptions,
    pub persistent_volume_binder: BinderOptions,
    /// The local path provisioner; `None` disables it.
    pub local_path: Option<LocalPathOptions>,
    pub horizontal_pod_autoscaler: HorizontalPodAutoscalerOptions,
    /// The source of pod CIDRs; `None` if nodes get them elsewhere.
    pub node_ipam: Option<NodeIpamOptions>,
    pub node_lifecycle: NodeLifecycleOptions,
    pub pod_gc: PodGcOptions,
    /// The key that signs service-account tokens in secrets; `None` disables the token controller.
    pub token_key: Option<Arc<SigningKey>>,
    pub signing: SigningOptions,
    /// Approves kubelet serving certificates for names and addresses that are provably the node's and not reserved;
    /// `None` leaves all of them to administrators.
    pub approve_kubelet_serving: Option<Reserved>,
    pub legacy_token_cleaner: LegacyTokenCleanerOptions,
    pub endpoint_slices: EndpointSliceOptions,
    pub endpoints: EndpointsOptions,
    pub mirroring: MirroringOptions,
    pub quota: QuotaOptions,
}

/// Starts every controller.
pub fn start(manager: &Manager, options: Options) {
    disruption::start(manager);
    endpointslice::start(manager, options.endpoint_slices);
    garbage::start(manager);
    legacy_token_cleaner::start(manager, options.legacy_token_cleaner);
    mirroring::start(manager, options.mirroring);
    namespace::start(manager);
    nodeipam::start(manager, options.node_ipam.as_ref());
    nodelifecycle::start(manager, options.node_lifecycle);
    nodettl::start(manager);
    podgc::start(manager, options.pod_gc);
    quota::start(manager, options.quota);
    tainteviction::start(manager);
    manager.run(admission_policy_status::AdmissionPolicyStatus);
    manager.run(aggregation::ClusterRoleAggregation);
    manager.run(bootstrap_signer::BootstrapSigner);
    manager.run(certificates::approving::Approving);
    if let Some(reserved) = options.approve_kubelet_serving {
        manager.run(certificates::serving_approving::ServingApproving { reserved });
    }
    manager.run(certificates::cleaner::Cleaner);
    manager.run(certificates::signing::Signing(options.signing));
    manager.run(cronjob::CronJobs::new(TimeZone::system(), options.batch));
    manager.run(daemonset::DaemonSets);
    manager.run(deployment::Deployments);
    manager.run(podautoscaler::HorizontalPodAutoscalers::new(options.horizontal_pod_autoscaler));
    manager.run(endpoints::Endpoints::new(options.endpoints));
    manager.run(job::Jobs::new(options.batch));
    manager.run(job::OrphanPods { options: options.batch });
    manager.run(replicaset::REPLICATION_CONTROLLERS);
    manager.run(replicaset::REPLICA_SETS);
    if let Some(key) = options.token_key {
        let root_ca = options.root_ca.clone();
        manager.run(serviceaccount_token::ServiceAccountTokens { key, root_ca });
    }
    manager.run(rootca::RootCaPublisher { root_ca: options.root_ca });
    manager.run(serviceaccount::ServiceAccounts);
    manager.run(storage::attach::Attacher::new(manager, options.attach_detach));
    manager.run(storage::attributes_protection::AttributesProtection::new(manager));
    manager.run(storage::binder::Binder::new(manager, options.persistent_volume_binder));
    manager.run(storage::claim_protection::ClaimProtection::new(manager));
    manager.run(storage::ephemeral::EphemeralVolumes::new(manager));
    manager.run(storage::expand::Expander);
    if let Some(options) = options.local_path {
        manager.run(storage::local_path::LocalPath { options });
    }
    manager.run(storage::volume_protection::VolumeProtection);
    manager.run(servicecidr::ServiceCidrs);
    manager.run(statefulset::StatefulSets);
    manager.run(token_cleaner::TokenCleaner);
    manager.run(ttl::TtlAfterFinished { options: options.batch });
}
