//! The node's client certificate and the kubelet's serving certificate. Both are requested with CertificateSigningRequests.

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_base::Clock;
use corten_client::{Client, Key, kinds};
use corten_pki::{
    Credentials, IssuedCert, Sans, SigningRequest, identity_of, pem_certificates, signing_request,
};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";
/// The period of checks whether a request was signed, and their deadline.
const POLL_PERIOD: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Requests a client certificate of the node. `known` are the current credentials.
pub(super) async fn client(
    client: &Client,
    node: &str,
    known: &Credentials,
    clock: &Clock,
) -> anyhow::Result<Credentials> {
    let user = format!("system:node:{node}");
    let requested = signing_request(&user, "system:nodes", &Sans::default())
        .context("cannot create a certificate signing request")?;
    let cert_pem = request_certificate(client, CLIENT, "client auth", &requested, clock).await?;
    Ok(Credentials { cert_pem, key_pem: requested.key_pem, token: None, ..known.clone() })
}

/// Requests a serving certificate of the kubelet.
pub(crate) async fn serving(
    client: &Client,
    node: &str,
    sans: &Sans,
    clock: &Clock,
) -> anyhow::Result<IssuedCert> {
    let requested = signing_request(&format!("system:node:{node}"), "system:nodes", sans)
        .context("cannot create a certificate signing request")?;
    let cert_pem = request_certificate(client, SERVING, "server auth", &requested, clock).await?;
    Ok(IssuedCert { cert_pem, key_pem: requested.key_pem })
}

/// Creates a CertificateSigningRequest and waits until it is signed or denied.
async fn request_certificate(
    client: &Client,
    signer: &str,
    usage: &str,
    requested: &SigningRequest,
    clock: &Clock,
) -> anyhow::Result<String> {
    let kind = &kinds::CERTIFICATE_SIGNING_REQUESTS;
    let request = STANDARD.encode(&requested.request_pem);
    let mut csr = value!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {},
        "spec": {"request": (request), "signerName": (signer), "usages": ["digital signature", (usage)]},
    });
    csr.set(&["metadata", "generateName"], "csr-");
    let created = client.create(kind, &csr).await.context("cannot create a certificate signing request")?;
    let key = Key::of(&created);
    tracing::info!(csr = %key, signer, "created a certificate signing request");
    let waiting = async {
        loop {
            let csr = client.get(kind, &key).await.context("cannot read the certificate signing request")?;
            if let Some(certificate) = csr.str_at(&["status", "certificate"]).filter(|text| !text.is_empty())
            {
                let pem = STANDARD.decode(certificate).context("cannot read the certificate")?;
                return String::from_utf8(pem).context("cannot read the certificate");
            }
            if let Some(reason) = denial(&csr) {
                bail!("certificate signing request {key} was denied: {reason}");
            }
            clock.sleep(POLL_PERIOD).await;
        }
    };
    let signed = clock.timeout(DEADLINE, waiting).await;
    signed
        .with_context(|| format!("certificate signing request {key} was neither signed nor denied in time"))?
}

/// The reason of a denied or failed request.
fn denial(csr: &Value) -> Option<String> {
    let conditions = csr.items_at(&["status", "conditions"]).iter();
    let mut bad = conditions.filter(|c| matches!(c.str_at(&["type"]), Some("Denied" | "Failed")));
    bad.next().map(|condition| condition.str_at(&["message"]).unwrap_or("denied").to_owned())
}

/// The time to renew a certificate: after 80 % of its lifetime. Upstream's kubelet renews between 70 and 90 %.
pub(crate) fn renewal_time(cert_pem: &str) -> anyhow::Result<jiff::Timestamp> {
    let (from, until) = validity(cert_pem)?;
    let whole = until.duration_since(from).unwrap_or_default();
    jiff::Timestamp::try_from(from + whole.mul_f64(0.8))
        .context("the certificate's validity period is out of range")
}

/// True if a certificate is the node's and has not expired.
pub(crate) fn is_valid_for(cert_pem: &str, node: &str, clock: &Clock) -> bool {
    let Ok(certificates) = pem_certificates(cert_pem) else { return false };
    let identity = certificates.first().and_then(|first| identity_of(first).ok());
    let now = SystemTime::from(clock.now());
    identity.is_some_and(|identity| {
        identity.common_name == format!("system:node:{node}") && identity.not_after > now
    })
}

fn validity(cert_pem: &str) -> anyhow::Result<(SystemTime, SystemTime)> {
    let certificates = pem_certificates(cert_pem).context("cannot read a certificate")?;
    let first = certificates.first().context("the PEM data has no certificate")?;
    let identity = identity_of(first).context("cannot read a certificate")?;
    Ok((identity.not_before, identity.not_after))
}
