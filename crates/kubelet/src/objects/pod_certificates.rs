//! Pod certificates: requested with a key that never leaves the node, cached, and renewed in time.
//!
//! The outcome of a request is decided purely (`State::review`). The cache is lost when the process ends, and
//! certificates are then requested anew, as upstream does it.

mod state;

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_base::Clock;
use corten_client::{Key, Kind, Object, kinds};
use corten_pki::{KeyKind, prove};
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::objects::kind_watch::{KindWatch, NotSynced};
use crate::pod::Pod;
pub(crate) use state::CredentialBundle;
use state::{NotIssued, Pending, State};

/// The uid of a pod, the name of its volume, and the index of the volume's source.
type Place = (String, String, usize);

/// A pod has no certificate yet; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error(transparent)]
    NotSynced(#[from] NotSynced),
    #[error("while fetching service account: {0}")]
    ServiceAccount(corten_client::Error),
    #[error("while getting node object from local cache: it is not known yet")]
    NoNode,
    #[error("unknown key type {0:?}")]
    KeyType(String),
    #[error("key generation panicked")]
    Panicked(#[source] tokio::task::JoinError),
    #[error("while generating keypair: {0}")]
    KeyPair(corten_pki::Error),
    #[error("while creating PodCertificateRequest: {0}")]
    Create(corten_client::Error),
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
}

/// The certificates of pods, and the requests for them.
pub(crate) struct PodCertificates {
    pub(crate) requests: KindWatch,
    states: Mutex<HashMap<Place, State>>,
}

impl PodCertificates {
    /// The certificates of a node's pods. The node may see only its own requests.
    pub(crate) fn new(node: &str) -> PodCertificates {
        let own: Kind = kinds::POD_CERTIFICATE_REQUESTS.with_fields(format!("spec.nodeName={node}"));
        PodCertificates {
            requests: KindWatch::new(own, "podCertificate", pod_of, |objects| {
                &objects.pod_certificates.requests
            }),
            states: Mutex::default(),
        }
    }

    /// The key and certificate of a volume's source; an error until the certificate is issued.
    pub(crate) async fn get(
        &self,
        api: &ApiServer,
        clock: &Clock,
        pod: &Pod,
        volume: &str,
        index: usize,
        source: &Value,
    ) -> Result<CredentialBundle, CertificateError> {
        let requests = self.requests.objects(api, clock).await?;
        let place = (pod.uid().to_owned(), volume.to_owned(), index);
        let mut state = self.states.lock().get(&place).cloned().unwrap_or_default();
        let pending = state.pending().map(|name| Key::new(pod.namespace(), name));
        let request = pending.and_then(|key| requests.get(&key)).map(|request| request.tree());
        let now = clock.now();
        let events = state.review(request.as_ref(), now, &place);
        for (reason, message) in events {
            api.pod_events(pod).warning(reason, message);
        }
        let mut requested = Ok(());
        if state.needs_request(now) {
            requested =
                request_certificate(api, clock, pod, source).await.map(|pending| state.set_pending(pending));
        }
        // The present certificate is used until it is renewed.
        let bundle = state.bundle().map_err(|err| requested.err().unwrap_or(err.into()));
        self.states.lock().insert(place, state);
        bundle
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&self, api: &ApiServer, uid: &str) {
        self.requests.forget(api, uid);
        self.states.lock().retain(|(pod, ..), _| pod != uid);
    }
}

fn pod_of(request: &Object) -> Option<String> {
    request.with_tree(|tree| tree.str_at(&["spec", "podUID"]).map(str::to_owned))
}

/// Generates a key and creates a PodCertificateRequest.
async fn request_certificate(
    api: &ApiServer,
    clock: &Clock,
    pod: &Pod,
    source: &Value,
) -> Result<Pending, CertificateError> {
    let account = pod.tree().str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
    let key = Key::new(pod.namespace(), account);
    let found = api.client.get(&kinds::SERVICE_ACCOUNTS, &key).await;
    let found = found.map_err(CertificateError::ServiceAccount)?;
    let node = api.own_node();
    let node = node.ok_or(CertificateError::NoNode)?;
    let kind = source.str_at(&["keyType"]).unwrap_or_default();
    let kind: KeyKind = kind.parse().map_err(|()| CertificateError::KeyType(kind.to_owned()))?;
    // In a blocking task, because some keys take long to generate.
    let proof = tokio::task::spawn_blocking(move || prove(kind)).await.map_err(CertificateError::Panicked)?;
    let proof = proof.map_err(CertificateError::KeyPair)?;
    let text = |tree: &Value| tree.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
    let owners = Owners { account, account_uid: &text(&found), node_uid: &text(&node.tree()) };
    let request = request(pod, &owners, &api.node_name, source, &proof.request);
    let made = api.client.create(&kinds::POD_CERTIFICATE_REQUESTS, &request).await;
    let made = made.map_err(CertificateError::Create)?;
    let name = made.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    Ok(Pending::new(name, proof.key_pem, clock.now()))
}

/// The owners that a certificate is issued for.
struct Owners<'a> {
    account: &'a str,
    account_uid: &'a str,
    node_uid: &'a str,
}

fn request(pod: &Pod, owners: &Owners<'_>, node: &str, source: &Value, proof: &[u8]) -> Value {
    let mut request = value!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
        "metadata": {
            "namespace": (pod.namespace()), "generateName": "req-",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": (pod.name()), "uid": (pod.uid())}],
        },
        "spec": {
            "signerName": (source.str_at(&["signerName"]).unwrap_or_default()),
            "podName": (pod.name()), "podUID": (pod.uid()),
            "serviceAccountName": (owners.account), "serviceAccountUID": (owners.account_uid),
            "nodeName": (node), "nodeUID": (owners.node_uid),
            "stubPKCS10Request": (STANDARD.encode(proof)),
        },
    });
    for (from, to) in
        [("maxExpirationSeconds", "maxExpirationSeconds"), ("userAnnotations", "unverifiedUserAnnotations")]
    {
        if let Some(given) = source.get(from) {
            request.set(&["spec", to], given.clone());
        }
    }
    request
}
