//! Validation of a pod certificate request, and of its outcome: issued, denied or failed, once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

use crate::certificates::pem;
use crate::prepare::same;
use crate::validation::conditions::validate_conditions;
use crate::validation::fields::{IMMUTABLE, invalid_omitted, number, part};
use crate::validation::internal_form;
use crate::validation::projected_volume::validate_user_annotations;
use crate::validation::signer_name::{is_kubernetes_signer_name, validate_signer_name};
use crate::validation::text::{complain, list, member, text};

const UID_MAX_LENGTH: usize = 128;
const REQUEST_MAX_LENGTH: usize = 10 * 1024;
const CHAIN_MAX_LENGTH: usize = 100 * 1024;
const SHORTEST_SECONDS: i64 = 60 * 60;
const LONGEST_SECONDS: i64 = 91 * 24 * 60 * 60;
/// For signers of Kubernetes' own.
const LONGEST_OWN_SECONDS: i64 = 24 * 60 * 60;
const ENDS: [&str; 3] = ["Issued", "Denied", "Failed"];

pub(super) fn validate_create(request: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(request, "spec"), Field::new("spec"));
    let signer = text(spec, "signerName");
    validate_signer_name(signer, &at.child("signerName"), errors);
    let annotations = "unverifiedUserAnnotations";
    validate_user_annotations(spec.get(annotations), &at.child(annotations), errors);
    for (name, uid) in
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
    {
        complain(&at.child(name), text(spec, name), names::dns1123_subdomain(text(spec, name)), errors);
        validate_uid(text(spec, uid), &at.child(uid), errors);
    }
    if member(spec, "maxExpirationSeconds").is_none() {
        errors.required(at.child("maxExpirationSeconds"), "must be set");
        return;
    }
    let longest = if is_kubernetes_signer_name(signer) { LONGEST_OWN_SECONDS } else { LONGEST_SECONDS };
    let seconds = number(spec, "maxExpirationSeconds");
    if !(SHORTEST_SECONDS..=longest).contains(&seconds) {
        let why = format!("must be in the range [{SHORTEST_SECONDS}, {longest}]");
        errors.invalid(at.child("maxExpirationSeconds"), &Value::Int(seconds), why);
    }
    let has = |key: &str| !text(spec, key).is_empty();
    match (has("stubPKCS10Request"), has("pkixPublicKey"), has("proofOfPossession")) {
        (true, false, false) => validate_stub(spec, &at.child("stubPKCS10Request"), errors),
        (false, true, true) => {}
        _ => {
            let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            invalid_omitted(at, why, errors);
        }
    }
}

fn validate_uid(uid: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if uid.is_empty() {
        errors.invalid(*at, &Value::from(uid), "must not be empty");
    }
    if uid.len() > UID_MAX_LENGTH {
        errors.too_long(*at, UID_MAX_LENGTH);
    }
}

/// A stub request contains only the key and the proof of its possession.
fn validate_stub(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let bytes = STANDARD.decode(text(spec, "stubPKCS10Request")).unwrap_or_default();
    if bytes.len() > REQUEST_MAX_LENGTH {
        errors.too_long(*at, REQUEST_MAX_LENGTH);
        return;
    }
    let Ok((_, request)) = X509CertificationRequest::from_der(&bytes) else {
        invalid_omitted(*at, "must be a valid PKCS#10 CSR", errors);
        return;
    };
    if let Ok(PublicKey::RSA(key)) = request.certification_request_info.subject_pki.parsed()
        && !matches!(key.key_size(), 3072 | 4096)
    {
        let shown = Value::from(format!("{}-bit modulus", key.key_size()));
        errors.invalid(*at, &shown, "RSA keys must have modulus size 3072 or 4096");
    } else if request.verify_signature().is_err() {
        invalid_omitted(*at, "invalid signature", errors);
    }
}

/// The spec is immutable.
pub(super) fn validate_update(request: &Value, old: &Value, errors: &mut ErrorList) {
    if !same(request, old, &["spec"]) {
        let shown = internal_form::compact("PodCertificateRequestSpec", part(request, "spec"));
        errors.invalid_shown("spec", shown, IMMUTABLE);
    }
}

pub(super) fn validate_subresource(sub: &str, request: &Value, old: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, before) = (part(request, "status"), part(old, "status"));
    let at = Field::new("status");
    let found = errors.0.len();
    validate_ends(list(status, "conditions"), &at.child("conditions"), errors);
    validate_conditions(list(status, "conditions"), &at.child("conditions"), errors);
    if errors.0.len() > found {
        return;
    }
    let ended = |status: &Value, kinds: &[&str]| {
        let mut conditions = list(status, "conditions").iter();
        conditions.any(|c| kinds.contains(&text(c, "type")) && text(c, "status") == "True")
    };
    if ended(before, &ENDS) {
        if status != before {
            let why = "immutable after PodCertificateRequest is issued, denied, or failed";
            invalid_omitted(at, why, errors);
        }
    } else if ended(status, &["Denied", "Failed"]) {
        let issued = ["certificateChain", "notBefore", "notAfter", "beginRefreshAt"];
        if issued.iter().any(|key| member(status, key).is_some()) {
            let why =
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            invalid_omitted(at, why, errors);
        }
    } else if ended(status, &["Issued"]) {
        validate_issued(status, &at, errors);
    } else if status != before {
        let why = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
        invalid_omitted(at, why, errors);
    }
}

/// A request has one outcome.
fn validate_ends(conditions: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let mut ends = 0;
    for (i, condition) in conditions.iter().enumerate() {
        // Upstream separates the index like a member.
        let index = format!("[{i}]");
        let at = at.child(&index);
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if !ENDS.contains(&kind) {
            errors.not_supported(at.child("type"), &Value::from(kind), &ENDS);
            continue;
        }
        ends += 1;
        if ends > 1 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(at.child("type"), &Value::from(kind), why);
        }
        if status != "True" {
            errors.not_supported(at.child("status"), &Value::from(status), &["True"]);
        }
    }
}

/// A chain of certificates, and the validity of the first of them.
fn validate_issued(status: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (chain, chain_at) = (part(status, "certificateChain"), at.child("certificateChain"));
    let pem = chain.as_str().unwrap_or_default();
    if pem.len() > CHAIN_MAX_LENGTH {
        errors.too_long(chain_at, CHAIN_MAX_LENGTH);
        return;
    }
    if let Some(why) = chain_complaint(pem) {
        errors.invalid(chain_at, &Value::from(pem), why);
        return;
    }
    for key in ["notBefore", "notAfter"] {
        if member(status, key).is_none() {
            errors.required(at.child(key), "must be present and consistent with the issued certificate");
        }
    }
    if member(status, "beginRefreshAt").is_none() {
        let why = "must be present and in the range [notbefore+10min, notafter-10min]";
        errors.required(at.child("beginRefreshAt"), why);
    }
}

fn chain_complaint(chain: &str) -> Option<&'static str> {
    let mut blocks = pem::blocks(chain).peekable();
    if blocks.peek().is_none() {
        return Some("issued certificate chain must contain at least one certificate");
    }
    blocks.enumerate().find_map(|(i, block)| {
        if block.kind != pem::CERTIFICATE {
            return Some("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
        }
        x509_parser::parse_x509_certificate(&block.bytes).err().map(|_| match i {
            0 => "leaf certificate does not parse as valid X.509",
            _ => "intermediate certificate does not parse as valid X.509",
        })
    })
}
