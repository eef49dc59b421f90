//! Names of certificate signers: `example.com/signer`.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

/// Returns true if a signer is of Kubernetes' own domain.
pub(crate) fn is_kubernetes_signer_name(name: &str) -> bool {
    let host = name.split_once('/').map_or(name, |(host, _)| host);
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

pub(crate) fn validate_signer_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_PATH: usize = names::SUBDOMAIN_MAX_LENGTH + names::LABEL_MAX_LENGTH + 1;
    const MOST: usize = names::SUBDOMAIN_MAX_LENGTH + MOST_PATH + 1;
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(at, &Value::from(name), why);
        return;
    };
    if domain.len() > names::SUBDOMAIN_MAX_LENGTH {
        errors.too_long(at, names::SUBDOMAIN_MAX_LENGTH);
    }
    validate_segments(domain, names::dns1123_label, at, errors);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.invalid(at, &Value::from(domain), why);
    }
    validate_segments(path, names::dns1123_subdomain, at, errors);
    if name.len() > MOST {
        errors.too_long(at, MOST);
    }
}

/// The first invalid segment is reported.
fn validate_segments(text: &str, format: fn(&str) -> Vec<String>, at: &Field<'_>, errors: &mut ErrorList) {
    for segment in text.split('.') {
        let complaints = format(segment);
        if complaints.is_empty() {
            continue;
        }
        for complaint in complaints {
            let why = format!("validating label \"{segment}\": {complaint}");
            errors.invalid(at, &Value::from(text), why);
        }
        return;
    }
}
