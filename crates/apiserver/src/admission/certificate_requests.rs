//! `CertificateSigningRequest` objects, as several plugins read them.

use corten_api::Value;
use corten_pki::{RequestedSubject, requested_subject};

/// Group and name of the resource.
pub(super) const RESOURCE: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// The subject of the PEM request in the object's spec.
pub(super) fn subject(request: &Value) -> Result<RequestedSubject, String> {
    use base64::Engine as _;
    let text = request.str_at(&["spec", "request"]).unwrap_or_default();
    let pem = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    requested_subject(&pem).map_err(|error| error.to_string())
}
