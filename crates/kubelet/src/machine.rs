//! What a node's parts share: the runtime, the images, the API server, the clock.

use std::sync::Arc;

use corten_api::Value;
use corten_base::Clock;
use corten_client::{Caches, Client, Kind};
use corten_container::Runtime;
use corten_reconcile::Recorder;
use tokio::sync::Notify;

use crate::admission::Admissions;
use crate::allocation::Allocations;
use crate::cgroups::PodCgroups;
use crate::collection::Collection;
use crate::config::NodeConfig;
use crate::events::Teller;
use crate::eviction::Evictions;
use crate::followed::Followed;
use crate::housekeeping::Housekeeping;
use crate::images::ImageManager;
use crate::node::{NodeOptions, Reserved};
use crate::pod::Pod;
use crate::pod_certificates::PodCertificates;
use crate::pods::Pods;
use crate::probes::Probes;
use crate::stats::Stats;
use crate::statuses::Statuses;
use crate::tokens::Tokens;
use crate::volumes::Volumes;
use crate::watched::Watched;

pub(crate) struct Machine {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) images: ImageManager,
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) config: NodeConfig,
    pub(crate) volumes: Volumes,
    pub(crate) statuses: Statuses,
    pub(crate) tokens: Tokens,
    pub(crate) watched: Watched,
    /// Bundles of authorities that pods may trust.
    pub(crate) trust: Followed,
    pub(crate) certificates: PodCertificates,
    pub(crate) probes: Probes,
    pub(crate) pods: Pods,
    pub(crate) cgroups: PodCgroups,
    pub(crate) admissions: Admissions,
    pub(crate) allocations: Allocations,
    pub(crate) stats: Stats,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) evictions: Evictions,
    pub(crate) collection: Collection,
    /// There is something new to report about the node.
    pub(crate) news: Notify,
    /// The pods that the API server has bound to this node.
    pub(crate) bound_pods: Kind,
    /// The node's own object, the only one it may see.
    pub(crate) own_node: Kind,
    pub(crate) node: NodeOptions,
    pub(crate) reserved: Reserved,
    /// How the kubelet was configured, as it is served; `None` if it was not.
    pub(crate) configuration: Option<Value>,
    /// The node's addresses, the primary one first.
    pub(crate) host_ips: Vec<String>,
    /// Where the kubelet's API is; 0 if it has none.
    pub(crate) api_port: u16,
    /// As container ids name the runtime.
    pub(crate) runtime_name: String,
}

impl Machine {
    pub(crate) fn teller(&self, pod: &Pod) -> Teller {
        Teller::new(self.recorder.clone(), pod.clone(), &self.config.node_name)
    }

    /// Whether a pod has ended for good, as far as was told.
    pub(crate) fn has_ended(&self, pod: &Pod) -> bool {
        let told = self.statuses.last(pod.uid());
        let phase = match &told {
            Some(status) => status.str_at(&["phase"]),
            None => pod.tree().str_at(&["status", "phase"]),
        };
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// Forgets a pod of which nothing is left.
    pub(crate) fn forget(&self, uid: &str) {
        self.images.forget(uid);
        self.statuses.forget(uid);
        self.tokens.forget(uid);
        self.watched.forget(self, uid);
        self.trust.forget(self, uid);
        self.certificates.forget(self, uid);
        self.probes.forget(uid);
        self.pods.forget(uid);
        self.allocations.forget(self, uid);
    }
}
