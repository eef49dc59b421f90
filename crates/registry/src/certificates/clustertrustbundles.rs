//! Cluster trust bundles: root certificates for the whole cluster. A name may start with the signer's and a colon.

use std::collections::HashMap;

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::certificates::pem;
use crate::rules::{NameRule, RowContext, Rules, Selectable};
use crate::table::{NAME, NONE, cells, field, name, str_or, text};
use crate::validation::fields::{immutable_text, part};
use crate::validation::signer_name::validate_signer_name;
use crate::validation::text::{complain, text as text_of};

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "clustertrustbundles",
    storage_version: "v1beta1",
    storage_prefix: "clustertrustbundles",
    name: NameRule::Any,
    validate_create: |bundle, errors| validate(bundle, None, errors),
    validate_update: |bundle, old, errors| validate(bundle, Some(old), errors),
    unconditional_update: false,
    selectable: &[Selectable { label: "spec.signerName", value: |o| field(o, &["spec", "signerName"]) }],
    columns: &[
        NAME,
        text("SignerName", "The signer whose roots these are.")
            .of("certificates/v1.ClusterTrustBundleSpec", "signerName"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_or(object, &["spec", "signerName"], NONE)]
}

const BUNDLE_MAX_LENGTH: usize = 1024 * 1024;

fn validate(bundle: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (part(bundle, "spec"), Field::new("spec"));
    let signer = text_of(spec, "signerName");
    validate_names(bundle, signer, errors);
    if !signer.is_empty() {
        validate_signer_name(signer, &at.child("signerName"), errors);
    }
    let old = old.map(|old| part(old, "spec"));
    let roots = text_of(spec, "trustBundle");
    if old.is_none_or(|old| text_of(old, "trustBundle") != roots) {
        validate_roots(roots, &at.child("trustBundle"), errors);
    }
    if let Some(old) = old {
        immutable_text(spec, old, "signerName", &at, errors);
    }
}

/// Validates the name of a bundle, and the prefix of a generated one.
fn validate_names(bundle: &Value, signer: &str, errors: &mut ErrorList) {
    let metadata = Field::new("metadata");
    let mut check = |key: &str, rule: fn(&str) -> Vec<String>| {
        let name = bundle.str_at(&["metadata", key]).unwrap_or_default();
        if !name.is_empty() {
            complain(&metadata.child(key), name, name_errors(name, signer, rule), errors);
        }
    };
    check("generateName", |prefix| NameRule::DnsSubdomain.check_prefix(prefix));
    check("name", names::dns1123_subdomain);
}

/// The names of a signer's bundles have its prefix; others have no colon.
fn name_errors(name: &str, signer: &str, check: fn(&str) -> Vec<String>) -> Vec<String> {
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()],
            false => check(name),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        None => {
            vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")]
        }
        Some(rest) => check(rest),
    }
}

/// CA certificates, each once.
fn validate_roots(roots: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if roots.len() > BUNDLE_MAX_LENGTH {
        errors.too_long(*at, BUNDLE_MAX_LENGTH);
        return;
    }
    let mut refuse = |why: String| errors.invalid(*at, &Value::from("<value omitted>"), why);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut broken = false;
    for (i, block) in pem::blocks(roots).enumerate() {
        if let Some(why) = root_complaint(&block) {
            refuse(format!("entry {i} {why}"));
            broken = true;
        }
        seen.push(block.bytes);
    }
    if broken {
        return;
    }
    if seen.is_empty() {
        refuse("at least one trust anchor must be provided".to_owned());
    }
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (i, root) in seen.iter().enumerate() {
        places.entry(root).or_default().push(i);
    }
    for root in &seen {
        // In the order of their first occurrence.
        if let Some(indices) = places.remove(root.as_slice()).filter(|indices| indices.len() > 1) {
            let indices: Vec<String> = indices.iter().map(usize::to_string).collect();
            refuse(format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
        }
    }
}

fn root_complaint(block: &pem::Block<'_>) -> Option<String> {
    if block.kind != pem::CERTIFICATE {
        return Some(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&block.bytes) else {
        return Some("does not parse as X.509".to_owned());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn names_and_prefixes_have_the_prefix_of_the_signer() {
        const PREFIX: &str = "ClusterTrustBundle for signerName a.io/b must be named with prefix a.io:b:";
        let table: [(Value, &str, Vec<String>); 5] = [
            (value!({}), "a.io/b", vec![]),
            (value!({"generateName": "a.io:b:c-", "name": "a.io:b:c-x"}), "a.io/b", vec![]),
            (
                value!({"generateName": "c-", "name": "c/x"}),
                "a.io/b",
                vec![
                    format!("metadata.generateName: Invalid value: \"c-\": {PREFIX}"),
                    format!("metadata.name: Invalid value: \"c/x\": {PREFIX}"),
                ],
            ),
            (value!({"generateName": "c-", "name": "c-x"}), "", vec![]),
            (
                value!({"name": "a:b"}),
                "",
                vec![
                    "metadata.name: Invalid value: \"a:b\": ClusterTrustBundle without signer name must not have \":\" in its name"
                        .to_owned(),
                ],
            ),
        ];
        for (metadata, signer, expected) in table {
            let mut errors = ErrorList::new();
            validate_names(&value!({"metadata": metadata}), signer, &mut errors);
            let found: Vec<String> =
                errors.causes().into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
            assert_eq!(found, expected);
        }
    }
}
