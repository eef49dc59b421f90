//! The form of certificates and keys in PEM. Their content is not checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The reason for which two PEM texts cannot be a certificate and its key.
pub(super) fn complaint(certificate: &str, key: &str) -> Option<String> {
    let certificates: Vec<&str> = block_types(certificate).collect();
    if !certificates.contains(&"CERTIFICATE") {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if is_key(only) => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
            others => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                others.join(" ")
            ),
        });
    }
    let keys: Vec<&str> = block_types(key).collect();
    if keys.iter().any(|kind| is_key(kind)) {
        return None;
    }
    Some(match keys.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        ["CERTIFICATE"] => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            others.join(" ")
        ),
    })
}

fn is_key(kind: &str) -> bool {
    kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")
}

/// The types of the blocks in a PEM text.
fn block_types(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once("-----BEGIN ")?;
            rest = after;
            let Some((kind, body)) = after.split_once("-----") else { continue };
            let Some((body, after)) = body.split_once(&format!("-----END {kind}-----")) else { continue };
            if is_base64(body) {
                rest = after;
                return Some(kind);
            }
        }
    })
}

/// Returns true if the lines of a block, except for its headers, are base64.
fn is_base64(body: &str) -> bool {
    let lines = body.lines().map(str::trim).filter(|line| !line.contains(':'));
    STANDARD.decode(lines.collect::<String>()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_named() {
        let block = |kind: &str| format!("-----BEGIN {kind}-----\nMIIB\n-----END {kind}-----\n");
        let (certificate, key, other) = (block("CERTIFICATE"), block("RSA PRIVATE KEY"), block("OTHER"));
        let ends = |certificate: &str, key: &str, end: &str| {
            let found = complaint(certificate, key).unwrap_or_default();
            assert!(found.ends_with(end), "{found}");
        };
        assert_eq!(complaint(&certificate, &key), None);
        assert_eq!(complaint(&(other.clone() + &certificate), &(other.clone() + &key)), None);
        ends("", "", "any PEM data in certificate input");
        ends(&certificate, "x", "any PEM data in key input");
        ends(&key, &certificate, "PEM inputs may have been switched");
        ends(&other, &key, "of the following types: [OTHER]");
        ends(&certificate, &certificate, "in the PEM for the private key");
        ends(
            &certificate,
            &(other.clone() + &other),
            "in key input after skipping PEM blocks of the following types: [OTHER OTHER]",
        );
    }
}
