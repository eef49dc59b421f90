//! API objects that pods use: config maps, secrets, service account tokens, trust bundles and pod certificates.
//!
//! Objects are watched only while a pod of this node uses them, and are forgotten with the last such pod.

pub(crate) mod kind_watch;
pub(crate) mod named_objects;
pub(crate) mod pod_certificates;
pub(crate) mod tokens;

use std::sync::Arc;

use corten_client::kinds;

use crate::api_server::ApiServer;
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use kind_watch::KindWatch;
use named_objects::NamedObjects;
use pod_certificates::PodCertificates;
use tokens::Tokens;

/// The caches of objects that pods use.
pub(crate) struct PodObjects {
    pub(crate) named: NamedObjects,
    pub(crate) trust_bundles: KindWatch,
    pub(crate) pod_certificates: PodCertificates,
    pub(crate) tokens: Tokens,
}

impl PodObjects {
    pub(crate) fn new(node_name: &str) -> PodObjects {
        PodObjects {
            named: NamedObjects::default(),
            trust_bundles: KindWatch::new(
                kinds::CLUSTER_TRUST_BUNDLES.clone(),
                "clusterTrustBundle",
                |_| None,
                |objects| &objects.trust_bundles,
            ),
            pod_certificates: PodCertificates::new(node_name),
            tokens: Tokens::default(),
        }
    }

    /// Watches the objects that a pod uses. A change refreshes the pod's volumes.
    pub(crate) fn watch(kubelet: &Arc<Kubelet>, pod: &Pod) {
        NamedObjects::watch(kubelet, pod);
        kubelet.objects.trust_bundles.watch(kubelet, pod);
        kubelet.objects.pod_certificates.requests.watch(kubelet, pod);
    }

    /// Drops what only this pod used.
    pub(crate) fn forget_pod(&self, api: &ApiServer, uid: &str) {
        self.named.forget(api, uid);
        self.trust_bundles.forget(api, uid);
        self.pod_certificates.forget(api, uid);
        self.tokens.forget(uid);
    }
}
