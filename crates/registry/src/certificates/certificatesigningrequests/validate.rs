//! Validation of a certificate signing request, and of its conditions: approved or denied, never both, and
//! immutable.

use std::collections::HashSet;

use corten_api::status::{ErrorList, quoted};
use corten_api::{ByContent, Field, Value};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::certificates::pem;
use crate::prepare::same;
use crate::validation::fields::{number, part};
use crate::validation::repeats::Repeats;
use crate::validation::signer_name::validate_signer_name;
use crate::validation::text::{list, member, text};

const SHORTEST_SECONDS: i64 = 600;
/// For clients that could not name a signer yet.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Conditions whose status must be true.
const VERDICTS: [&str; 3] = ["Approved", "Denied", "Failed"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn validate_create(request: &Value, errors: &mut ErrorList) {
    validate(request, None, errors);
}

pub(super) fn validate_update(request: &Value, old: &Value, errors: &mut ErrorList) {
    validate_subresource("", request, old, errors);
}

pub(super) fn validate_subresource(sub: &str, request: &Value, old: &Value, errors: &mut ErrorList) {
    validate(request, Some(old), errors);
    let at = "status.conditions";
    let of = |object, kind| conditions(object).iter().filter(|c| text(c, "type") == kind).count();
    for kind in VERDICTS {
        if of(request, kind) < of(old, kind) {
            errors.forbidden(at, format!("updates may not remove a condition of type {}", quoted(kind)));
        }
    }
    if sub != "approval" {
        for kind in ["Approved", "Denied"] {
            if of(request, kind) > of(old, kind) {
                errors.forbidden(at, format!("updates may not add a condition of type {}", quoted(kind)));
            }
        }
    }
    if same(request, old, &["status", "certificate"]) {
        return;
    }
    let at = "status.certificate";
    if sub != "status" {
        errors.forbidden(at, "updates may not set certificate content");
    } else if !certificate(old).is_empty() {
        errors.forbidden(at, "updates may not modify existing certificate content");
    }
}

fn conditions(request: &Value) -> &[Value] {
    list(part(request, "status"), "conditions")
}

fn certificate(request: &Value) -> &str {
    text(part(request, "status"), "certificate")
}

/// All errors of a request. Stored values that would be refused today may stay.
fn validate(request: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (part(request, "spec"), Field::new("spec"));
    if let Err(why) = check_request(part(spec, "request")) {
        errors.invalid(at.child("request"), part(spec, "request"), why);
    }
    validate_usages(spec, old.map(|old| part(old, "spec")), &at.child("usages"), errors);
    let signer = text(spec, "signerName");
    let stored = old.is_some_and(|old| text(part(old, "spec"), "signerName") == LEGACY_SIGNER);
    if signer == LEGACY_SIGNER && !stored {
        let why = "the legacy signerName is not allowed via this API version";
        errors.invalid(at.child("signerName"), &Value::from(signer), why);
    } else {
        validate_signer_name(signer, &at.child("signerName"), errors);
    }
    let seconds = number(spec, "expirationSeconds");
    if member(spec, "expirationSeconds").is_some() && seconds < SHORTEST_SECONDS {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(at.child("expirationSeconds"), &Value::Int(seconds), why);
    }
    validate_conditions(conditions(request), old.map_or(&[], conditions), errors);
    let kept = old.is_some_and(|old| same(request, old, &["status", "certificate"]));
    let kept = kept || old.is_some_and(|old| check_certificate(old).is_err());
    if !kept && let Err(why) = check_certificate(request) {
        errors.invalid("status.certificate", &Value::from("<certificate data>"), why);
    }
}

/// Checks that a request is valid and signed by its own key.
fn check_request(request: &Value) -> Result<(), String> {
    let text = pem::text_of_bytes(request).unwrap_or_default();
    let Some(block) = pem::blocks(&text).next().filter(|block| block.kind == "CERTIFICATE REQUEST") else {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    let (rest, parsed) =
        X509CertificationRequest::from_der(&block.bytes).map_err(|_| "asn1: syntax error".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    parsed.verify_signature().map_err(|_| "x509: signature verification failure".to_owned())
}

/// Checks that the issued bytes are certificates and nothing else.
fn check_certificate(request: &Value) -> Result<(), String> {
    if certificate(request).is_empty() {
        return Ok(());
    }
    let text = pem::text_of_bytes(part(part(request, "status"), "certificate")).unwrap_or_default();
    let mut some = false;
    for block in pem::blocks(&text) {
        if block.kind != pem::CERTIFICATE {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", quoted(block.kind)));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if x509_parser::parse_x509_certificate(&block.bytes).is_err() {
            return Err("x509: malformed certificate".to_owned());
        }
        some = true;
    }
    some.then_some(()).ok_or_else(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn validate_usages(spec: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let usages = list(spec, "usages");
    let unknown = |usage: &Value| !usage.as_str().is_some_and(|usage| USAGES.contains(&usage));
    if usages.is_empty() {
        errors.required(*at, "");
    }
    let old = old.map_or(&[][..], |old| list(old, "usages"));
    if !old.iter().any(unknown) {
        for (i, usage) in usages.iter().enumerate().filter(|(_, usage)| unknown(usage)) {
            errors.not_supported(at.index(i), usage, &USAGES);
        }
    }
    if duplicates(old).next().is_none() {
        for i in duplicates(usages) {
            errors.duplicate(at.index(i), usages.get(i).unwrap_or(&Value::Null));
        }
    }
}

/// The positions of items that repeat an earlier one.
fn duplicates(items: &[Value]) -> impl Iterator<Item = usize> {
    let repeats = Repeats::of(items, ByContent);
    (0..items.len()).filter(move |i| repeats.at(*i))
}

fn validate_conditions(conditions: &[Value], old: &[Value], errors: &mut ErrorList) {
    let status = Field::new("status");
    let at = status.child("conditions");
    let has = |list: &[Value], kind: &str| list.iter().any(|c| text(c, "type") == kind);
    let undecided = has(old, "Approved") && has(old, "Denied");
    let kinds = |list: &[Value]| -> Vec<Value> { list.iter().map(|c| part(c, "type").clone()).collect() };
    let repeated = duplicates(&kinds(old)).next().is_some();
    let untyped = has(old, "");
    let mut earlier: HashSet<&str> = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if kind.is_empty() && !untyped {
            errors.required(at.index(i).child("type"), "");
        }
        let known: &[&str] = if VERDICTS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.required(at.index(i).child("status"), ""),
            status if known.contains(&status) => {}
            other => errors.not_supported(at.index(i).child("status"), &Value::from(other), known),
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && !undecided && earlier.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(at, &Value::from(kind), why);
        }
        if !earlier.insert(kind) && !repeated {
            errors.duplicate(at.index(i).child("type"), &Value::from(kind));
        }
    }
}
