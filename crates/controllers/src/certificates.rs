//! Certificate signing requests: the controllers that approve, sign and remove them, and the decisions they share.

pub(crate) mod approving;
pub(crate) mod cleaner;
pub(crate) mod ownership;
mod rules;
pub(crate) mod serving_approving;
pub(crate) mod signing;
#[cfg(test)]
mod testing;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, time};
use corten_pki::CertificateRequest;
use jiff::Timestamp;

use crate::conditions::condition;

/// The service account of all three.
const ACCOUNT: &str = "certificate-controller";

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

fn signer_name(csr: &Value) -> &str {
    csr.str_at(&["spec", "signerName"]).unwrap_or_default()
}

fn usages(csr: &Value) -> Vec<&str> {
    csr.items_at(&["spec", "usages"]).iter().filter_map(Value::as_str).collect()
}

/// The decoded certificate request; the API server admits none that cannot be decoded.
fn request(csr: &Value) -> Option<CertificateRequest> {
    let text = csr.str_at(&["spec", "request"])?;
    CertificateRequest::read(&STANDARD.decode(text).ok()?).ok()
}

fn is_issued(csr: &Value) -> bool {
    csr.str_at(&["status", "certificate"]).is_some_and(|certificate| !certificate.is_empty())
}

fn is_approved(csr: &Value) -> bool {
    condition(csr, APPROVED).is_some() && condition(csr, DENIED).is_none()
}

/// The delay before a retry: the age of the request, within limits, so that the time between attempts doubles.
fn retry_delay(csr: &Value, now: Timestamp) -> Duration {
    let since = csr.str_at(&["metadata", "creationTimestamp"]).and_then(|text| time::parse(text).ok());
    let age = since.map_or(Duration::ZERO, |since| now.duration_since(since).try_into().unwrap_or_default());
    age.clamp(Duration::from_millis(200), Duration::from_secs(1000))
}

/// The request with one more condition.
fn with_condition(csr: &Value, condition: Value) -> Value {
    let mut csr = csr.clone();
    csr.make_object().entry("status").make_object().entry("conditions").make_array().push(condition);
    csr
}
