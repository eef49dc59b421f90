//! Whom a pod may trust: the authorities in bundles, each once. Pure but for looking at the bundles that are known.

use std::collections::BTreeSet;

use corten_api::Value;
use corten_api::selector::LabelSelector;
use corten_client::{Cache, Key};
use corten_pki::{pem_certificates, to_pem};

/// The authorities that a part of a volume asks for: those of one bundle, or of all of a signer that are selected.
pub(super) fn anchors(bundles: &Cache, source: &Value) -> Result<String, String> {
    let optional = source.bool_at(&["optional"]).unwrap_or(false);
    let found: Vec<Value> = match (source.str_at(&["name"]), source.str_at(&["signerName"])) {
        (Some(name), _) => {
            let found = bundles.get(&Key::new("", name)).map(|bundle| bundle.tree());
            if found.is_none() && !optional {
                return Err(format!(
                    "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {name:?} not found"
                ));
            }
            found.into_iter().collect()
        }
        (None, Some(signer)) => {
            let selector = LabelSelector::from_object(source.get("labelSelector"))
                .map_err(|error| format!("while parsing label selector: {error}"))?;
            let selected = bundles.select("", &selector).into_iter().map(|bundle| bundle.tree());
            let found: Vec<Value> =
                selected.filter(|bundle| bundle.str_at(&["spec", "signerName"]) == Some(signer)).collect();
            if found.is_empty() && !optional {
                return Err(
                    "combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned()
                );
            }
            found
        }
        (None, None) => return Err("neither the name of a bundle nor that of a signer is given".to_owned()),
    };
    Ok(joined(found.iter().filter_map(|bundle| bundle.str_at(&["spec", "trustBundle"]))))
}

/// All certificates of some bundles, without what else is written there.
fn joined<'a>(bundles: impl Iterator<Item = &'a str>) -> String {
    // The server has made sure that they can be read.
    let certificates = bundles.flat_map(|bundle| pem_certificates(bundle).unwrap_or_default());
    let distinct: BTreeSet<Vec<u8>> = certificates.map(|certificate| certificate.to_vec()).collect();
    distinct.iter().map(|certificate| to_pem(certificate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_authority_comes_once_and_nothing_else_does() {
        let (one, two) = (to_pem(&[1; 40]), to_pem(&[2; 40]));
        let first = format!("words between\n{two}{one}");
        assert_eq!(joined([first.as_str(), one.as_str()].into_iter()), format!("{one}{two}"));
        assert_eq!(joined(std::iter::empty()), "");
    }
}
