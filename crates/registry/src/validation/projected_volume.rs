//! Volumes that combine several sources in one directory.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::number::given;
use crate::validation::path::{file_mode, is_local_non_reserved, local_non_reserved};
use crate::validation::pod_context::PodContext;
use crate::validation::signer_name::{is_kubernetes_signer_name, validate_signer_name};
use crate::validation::text::{complain, list, member, text};
use crate::validation::tolerance;
use crate::validation::volume_source::{validate_downward_file, validate_key_to_path};

const KINDS: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// The paths of sources so far.
struct Paths<'a>(HashSet<&'a str>);

impl<'a> Paths<'a> {
    /// Adds a path; one that was added before is a conflict.
    fn add(&mut self, path: &'a str, blamed: &str, at: &Field<'_>, errors: &mut ErrorList) {
        if !self.0.insert(path) {
            errors.invalid(at, &Value::from(blamed), "conflicting duplicate paths");
        }
    }
}

pub(crate) fn validate_projected(
    context: &PodContext<'_>,
    volume: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    file_mode(volume, "defaultMode", at, errors);
    let sources_at = at.child("sources");
    let mut paths = Paths(HashSet::new());
    for (i, source) in list(volume, "sources").iter().enumerate() {
        let source_at = sources_at.index(i);
        let mut kinds = 0;
        for key in KINDS {
            let (Some(source), source_at) = (member(source, key), source_at.child(key)) else { continue };
            kinds += 1;
            match key {
                "secret" | "configMap" => validate_files(source, &source_at, at, &mut paths, errors),
                "downwardAPI" => validate_downward(source, &source_at, at, &mut paths, errors),
                "serviceAccountToken" => validate_token(context, source, &source_at, at, errors),
                "clusterTrustBundle" => validate_trust_bundle(source, &source_at, at, &mut paths, errors),
                _ => validate_certificate(source, &source_at, at, &mut paths, errors),
            }
        }
        if kinds > 1 {
            errors.forbidden(source_at, "may not specify more than 1 volume type per source");
        }
    }
}

fn validate_files<'a>(
    source: &'a Value,
    at: &Field<'_>,
    volume_at: &Field<'_>,
    paths: &mut Paths<'a>,
    errors: &mut ErrorList,
) {
    let name = text(source, "name");
    if name.is_empty() {
        errors.required(at.child("name"), "");
    }
    let at = at.child("items");
    for (i, item) in list(source, "items").iter().enumerate() {
        validate_key_to_path(item, &at.index(i), errors);
        match text(item, "path") {
            "" => {}
            path => paths.add(path, name, volume_at, errors),
        }
    }
}

fn validate_downward<'a>(
    source: &'a Value,
    at: &Field<'_>,
    volume_at: &Field<'_>,
    paths: &mut Paths<'a>,
    errors: &mut ErrorList,
) {
    for file in list(source, "items") {
        validate_downward_file(file, at, errors);
        match text(file, "path") {
            "" => {}
            path => paths.add(path, path, volume_at, errors),
        }
    }
}

fn validate_token(
    context: &PodContext<'_>,
    token: &Value,
    at: &Field<'_>,
    volume_at: &Field<'_>,
    errors: &mut ErrorList,
) {
    const LEAST: i64 = 10 * 60;
    const MOST: i64 = 1 << 32;
    let expiration_at = at.child("expirationSeconds");
    match given(token, "expirationSeconds") {
        None => errors.required(expiration_at, ""),
        Some(seconds) if seconds < LEAST => {
            let why = "may not specify a duration less than 10 minutes";
            errors.invalid(expiration_at, &Value::from(seconds), why);
        }
        Some(seconds) if seconds > MOST => {
            let why = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(expiration_at, &Value::from(seconds), why);
        }
        Some(_) => {}
    }
    match text(token, "path") {
        "" => errors.required(volume_at.child("path"), ""),
        path if is_local_non_reserved(path) || context.old(tolerance::non_local_token_paths) => {}
        path => local_non_reserved(path, &volume_at.child("path"), errors),
    }
}

fn validate_trust_bundle<'a>(
    bundle: &'a Value,
    at: &Field<'_>,
    volume_at: &Field<'_>,
    paths: &mut Paths<'a>,
    errors: &mut ErrorList,
) {
    let by = |key: &str| bundle.get(key).and_then(Value::as_str);
    match (by("name"), by("signerName")) {
        (Some(_), Some(_)) => {
            let shown = internal_form::compact("ClusterTrustBundleProjection", bundle);
            errors.invalid_shown(at, shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => validate_trust_bundle_by_name(bundle, name, at, errors),
        (None, Some(signer)) => {
            let signer_at = at.child("signerName");
            if signer.is_empty() {
                errors.required(signer_at, "must be a valid signer name");
            }
            validate_signer_name(signer, &signer_at, errors);
            let selector = member(bundle, "labelSelector");
            let options = LabelSelectorOptions::default();
            validate_label_selector(selector, options, &at.child("labelSelector"), errors);
        }
        (None, None) => errors.required(at, "either name or signerName must be specified"),
    }
    let path = text(bundle, "path");
    if path.is_empty() {
        errors.required(at.child("path"), "");
    }
    local_non_reserved(path, &at.child("path"), errors);
    paths.add(path, path, volume_at, errors);
}

fn validate_trust_bundle_by_name(bundle: &Value, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let name_at = at.child("name");
    if name.is_empty() {
        errors.required(name_at, "must be a valid object name");
    }
    // The text after the last colon is the bundle's own name; before it is its signer's.
    let own = name.rsplit_once(':').map_or(name, |(_, own)| own);
    for complaint in names::dns1123_subdomain(own) {
        let why = format!("not a valid clustertrustbundlename: {complaint}");
        errors.invalid(name_at, &Value::from(name), why);
    }
    if let Some(selector) = member(bundle, "labelSelector") {
        let why = "labelSelector must be unset if name is specified";
        errors.invalid(at.child("labelSelector"), selector, why);
    }
}

fn validate_certificate<'a>(
    certificate: &'a Value,
    at: &Field<'_>,
    volume_at: &Field<'_>,
    paths: &mut Paths<'a>,
    errors: &mut ErrorList,
) {
    const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    let signer = text(certificate, "signerName");
    validate_signer_name(signer, &at.child("signerName"), errors);
    validate_user_annotations(certificate.get("userAnnotations"), &at.child("userAnnotations"), errors);
    let key_type = text(certificate, "keyType");
    if !KEY_TYPES.contains(&key_type) {
        errors.not_supported(at.child("keyType"), &Value::from(key_type), &KEY_TYPES);
    }
    validate_certificate_expiration(certificate, signer, &at.child("maxExpirationSeconds"), errors);
    let mut none = true;
    for key in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = text(certificate, key);
        if !path.is_empty() {
            none = false;
            local_non_reserved(path, &at.child(key), errors);
            paths.add(path, path, volume_at, errors);
        }
    }
    if none {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(at, why);
    }
}

fn validate_certificate_expiration(
    certificate: &Value,
    signer: &str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    let Some(seconds) = given(certificate, "maxExpirationSeconds") else { return };
    let most = if is_kubernetes_signer_name(signer) { DAY } else { 91 * DAY };
    let why = if seconds < HOUR {
        format!("if provided, maxExpirationSeconds must be >= {HOUR}")
    } else if seconds > most {
        format!("if provided, maxExpirationSeconds must be <= {most}")
    } else {
        return;
    };
    errors.invalid(at, &Value::from(seconds), why);
}

/// Annotations that the author of a pod passes to the signer of its certificates.
pub(crate) fn validate_user_annotations(annotations: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let mut total = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        total += key.len() + value.as_str().map_or(0, str::len);
        let key = key.to_lowercase();
        let complaints = names::qualified_name(&key);
        if key.is_empty() {
            errors.required(at, "");
        } else if complaints.is_empty() && !key.contains('/') {
            let why = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            errors.invalid(at, &Value::from(key), why);
        } else {
            complain(at, &key, complaints, errors);
        }
    }
    if total > names::TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.too_long(at, names::TOTAL_ANNOTATION_SIZE_LIMIT);
    }
}
