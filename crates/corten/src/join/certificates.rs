//! The node's certificates: the one it shows as a client and the one it shows as a server. Both are asked for with a
//! certificate signing request, and again before they are over.

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_base::Clock;
use corten_client::{Client, Key, kinds};
use corten_pki::{Asked, Credentials, IssuedCert, Sans, ask, identity_of, pem_certificates};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";
/// How often it is looked whether a request was granted, and for how long.
const LOOK: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A certificate as which the node speaks to the server. `known` is how the server is reached now.
pub(super) async fn client(
    client: &Client,
    node: &str,
    known: &Credentials,
    clock: &Clock,
) -> anyhow::Result<Credentials> {
    let user = format!("system:node:{node}");
    let asked = ask(&user, "system:nodes", &Sans::default()).context("making a key")?;
    let cert_pem = granted(client, CLIENT, "client auth", &asked, clock).await?;
    Ok(Credentials { cert_pem, key_pem: asked.key_pem, token: None, ..known.clone() })
}

/// A certificate as which the node serves.
pub(crate) async fn serving(
    client: &Client,
    node: &str,
    sans: &Sans,
    clock: &Clock,
) -> anyhow::Result<IssuedCert> {
    let asked = ask(&format!("system:node:{node}"), "system:nodes", sans).context("making a key")?;
    let cert_pem = granted(client, SERVING, "server auth", &asked, clock).await?;
    Ok(IssuedCert { cert_pem, key_pem: asked.key_pem })
}

/// Asks, and waits until somebody grants or denies it.
async fn granted(
    client: &Client,
    signer: &str,
    usage: &str,
    asked: &Asked,
    clock: &Clock,
) -> anyhow::Result<String> {
    let kind = &kinds::CERTIFICATE_SIGNING_REQUESTS;
    let request = STANDARD.encode(&asked.request_pem);
    let mut csr = value!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {},
        "spec": {"request": (request), "signerName": (signer), "usages": ["digital signature", (usage)]},
    });
    csr.set(&["metadata", "generateName"], "csr-");
    let made = client.create(kind, &csr).await.context("asking for a certificate")?;
    let key = Key::of(&made);
    tracing::info!(request = %key, signer, "asked for a certificate");
    let waiting = async {
        loop {
            let csr = client.get(kind, &key).await.context("looking whether the certificate was granted")?;
            if let Some(certificate) = csr.str_at(&["status", "certificate"]).filter(|text| !text.is_empty())
            {
                let pem = STANDARD.decode(certificate).context("reading the certificate")?;
                return String::from_utf8(pem).context("reading the certificate");
            }
            if let Some(reason) = refusal(&csr) {
                bail!("the certificate was not granted: {reason}");
            }
            clock.sleep(LOOK).await;
        }
    };
    clock.timeout(PATIENCE, waiting).await.context("nobody granted the certificate")?
}

/// Why there will be no certificate.
fn refusal(csr: &Value) -> Option<String> {
    let conditions = csr.items_at(&["status", "conditions"]).iter();
    let mut bad = conditions.filter(|c| matches!(c.str_at(&["type"]), Some("Denied" | "Failed")));
    bad.next().map(|condition| condition.str_at(&["message"]).unwrap_or("denied").to_owned())
}

/// When a certificate is to be renewed: when four fifths of its time are over, as upstream's kubelet does it between seven and nine
/// tenths.
pub(crate) fn renewal(cert_pem: &str) -> anyhow::Result<jiff::Timestamp> {
    let (from, until) = validity(cert_pem)?;
    let whole = until.duration_since(from).unwrap_or_default();
    jiff::Timestamp::try_from(from + whole.mul_f64(0.8)).context("the certificate's time is out of bounds")
}

/// Whether a certificate is that of a node and still has time.
pub(crate) fn is_good(cert_pem: &str, node: &str, clock: &Clock) -> bool {
    let Ok(certificates) = pem_certificates(cert_pem) else { return false };
    let identity = certificates.first().and_then(|first| identity_of(first).ok());
    let now = SystemTime::from(clock.now());
    identity.is_some_and(|identity| {
        identity.common_name == format!("system:node:{node}") && identity.not_after > now
    })
}

fn validity(cert_pem: &str) -> anyhow::Result<(SystemTime, SystemTime)> {
    let certificates = pem_certificates(cert_pem).context("reading a certificate")?;
    let first = certificates.first().context("there is no certificate")?;
    let identity = identity_of(first).context("reading a certificate")?;
    Ok((identity.not_before, identity.not_after))
}
