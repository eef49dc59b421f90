//! Certificates for pods: asked for with a key that never leaves the node, kept while they are fresh, and renewed in time.
//!
//! What became of a request is judged purely (`State::review`); what is known is lost when the process ends, and everything
//! is then asked for anew, as upstream does it.

mod state;

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_client::{Key, Kind, Object, kinds};
use corten_pki::{KeyKind, prove};
use parking_lot::Mutex;

use crate::followed::Followed;
use crate::machine::Machine;
use crate::pod::Pod;
pub(crate) use state::Bundle;
use state::{Pending, State};

/// Which part of which volume of which pod.
type Place = (String, String, usize);

pub(crate) struct PodCertificates {
    pub(crate) requests: Followed,
    states: Mutex<HashMap<Place, State>>,
}

impl PodCertificates {
    /// For the requests of a node, the only ones it may see.
    pub(crate) fn new(node: &str) -> PodCertificates {
        let own: Kind = kinds::POD_CERTIFICATE_REQUESTS.with_fields(format!("spec.nodeName={node}"));
        PodCertificates { requests: Followed::new(own, "podCertificate", pod_of), states: Mutex::default() }
    }

    /// The key and the certificate of a part of a volume; until there are any, why not.
    pub(crate) async fn get(
        &self,
        machine: &Machine,
        pod: &Pod,
        volume: &str,
        index: usize,
        source: &Value,
    ) -> Result<Bundle, String> {
        let requests = self.requests.objects(machine).await?;
        let place = (pod.uid().to_owned(), volume.to_owned(), index);
        let mut state = self.states.lock().get(&place).cloned().unwrap_or_default();
        let pending = state.pending().map(|name| Key::new(pod.namespace(), name));
        let request = pending.and_then(|key| requests.get(&key)).map(|request| request.tree());
        let now = machine.clock.now();
        let told = state.review(request.as_ref(), now, &place);
        for (reason, message) in told {
            machine.teller(pod).warning(reason, message);
        }
        let mut asked = Ok(());
        if state.has_to_ask(now) {
            asked = ask(machine, pod, source).await.map(|pending| state.wait_for(pending));
        }
        // What there is serves until it can be renewed.
        let bundle = state.bundle().map_err(|why| asked.err().unwrap_or(why));
        self.states.lock().insert(place, state);
        bundle
    }

    /// A pod is gone.
    pub(crate) fn forget(&self, machine: &Machine, uid: &str) {
        self.requests.forget(machine, uid);
        self.states.lock().retain(|(pod, ..), _| pod != uid);
    }
}

fn pod_of(request: &Object) -> Option<String> {
    request.with_tree(|tree| tree.str_at(&["spec", "podUID"]).map(str::to_owned))
}

/// Makes a key and asks for it to be certified.
async fn ask(machine: &Machine, pod: &Pod, source: &Value) -> Result<Pending, String> {
    let account = pod.tree().str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
    let key = Key::new(pod.namespace(), account);
    let found = machine.client.get(&kinds::SERVICE_ACCOUNTS, &key).await;
    let found = found.map_err(|error| format!("while fetching service account: {error}"))?;
    let node = machine.caches.of(&machine.own_node).get(&Key::new("", machine.config.node_name.as_str()));
    let node = node.ok_or("while getting node object from local cache: it is not known yet")?;
    let kind = source.str_at(&["keyType"]).unwrap_or_default();
    let kind: KeyKind = kind.parse().map_err(|()| format!("unknown key type {kind:?}"))?;
    // Some keys take a while to be found.
    let proof = tokio::task::spawn_blocking(move || prove(kind)).await.map_err(|error| error.to_string())?;
    let proof = proof.map_err(|error| format!("while generating keypair: {error}"))?;
    let text = |tree: &Value| tree.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
    let owners = Owners { account, account_uid: &text(&found), node_uid: &text(&node.tree()) };
    let request = request(pod, &owners, &machine.config.node_name, source, &proof.request);
    let made = machine.client.create(&kinds::POD_CERTIFICATE_REQUESTS, &request).await;
    let made = made.map_err(|error| format!("while creating PodCertificateRequest: {error}"))?;
    let name = made.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    Ok(Pending::new(name, proof.key_pem, machine.clock.now()))
}

/// Whom a certificate will speak for.
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
