//! `clusterTrustBundle` sources: the certificates of trust bundles, each once. Reads only the cache.

use std::collections::BTreeSet;

use corten_api::Value;
use corten_api::selector::LabelSelector;
use corten_client::{Cache, Key};
use corten_pki::{pem_certificates, to_pem};

/// A source's trust bundles cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustBundleError {
    #[error("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {0:?} not found")]
    NotFound(String),
    #[error("while parsing label selector: {0}")]
    Selector(String),
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoMatch,
    #[error("neither name nor signerName is set")]
    NoReference,
}

/// The trust anchors of a source: those of one bundle, or of all bundles of a signer that match a selector.
pub(super) fn anchors(bundles: &Cache, source: &Value) -> Result<String, TrustBundleError> {
    let optional = source.bool_at(&["optional"]).unwrap_or(false);
    let found: Vec<Value> = match (source.str_at(&["name"]), source.str_at(&["signerName"])) {
        (Some(name), _) => {
            let found = bundles.get(&Key::new("", name)).map(|bundle| bundle.tree());
            if found.is_none() && !optional {
                return Err(TrustBundleError::NotFound(name.to_owned()));
            }
            found.into_iter().collect()
        }
        (None, Some(signer)) => {
            let selector = LabelSelector::from_object(source.get("labelSelector"))
                .map_err(|err| TrustBundleError::Selector(err.to_string()))?;
            let selected = bundles.select("", &selector).into_iter().map(|bundle| bundle.tree());
            let found: Vec<Value> =
                selected.filter(|bundle| bundle.str_at(&["spec", "signerName"]) == Some(signer)).collect();
            if found.is_empty() && !optional {
                return Err(TrustBundleError::NoMatch);
            }
            found
        }
        (None, None) => return Err(TrustBundleError::NoReference),
    };
    Ok(joined(found.iter().filter_map(|bundle| bundle.str_at(&["spec", "trustBundle"]))))
}

/// The distinct certificates of bundles, without other text.
fn joined<'a>(bundles: impl Iterator<Item = &'a str>) -> String {
    // The API server has validated them.
    let certificates = bundles.flat_map(|bundle| pem_certificates(bundle).unwrap_or_default());
    let distinct: BTreeSet<Vec<u8>> = certificates.map(|certificate| certificate.to_vec()).collect();
    distinct.iter().map(|certificate| to_pem(certificate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_joined_once_each() {
        let (one, two) = (to_pem(&[1; 40]), to_pem(&[2; 40]));
        let first = format!("words between\n{two}{one}");
        assert_eq!(joined([first.as_str(), one.as_str()].into_iter()), format!("{one}{two}"));
        assert_eq!(joined(std::iter::empty()), "");
    }
}
