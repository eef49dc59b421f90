//! An invitation to a cluster: a bootstrap token with the fingerprint of the cluster's CA in front, as in
//! `K10<fingerprint>::abcdef.0123456789abcdef`. That is k3s' format; the fingerprint may also be a separate flag, as with
//! kubeadm. Pure.

use std::fmt;

use anyhow::bail;
use corten_pki::{pem_certificates, public_key_of};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// The prefix of tokens with a fingerprint.
const MARK: &str = "K10";

/// The CAs that are accepted as the cluster's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pin {
    /// The one whose certificate, in PEM, has this digest.
    Whole(String),
    /// Those whose public key has one of these digests.
    Keys(Vec<String>),
    /// Any; only the token is checked.
    None,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Invitation {
    id: String,
    secret: String,
    pin: Pin,
    /// Use the token although it has no CA fingerprint.
    skips_verification: bool,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invitation({})", self.id)
    }
}

impl Invitation {
    /// Parses a token, and the fingerprints of `--discovery-token-ca-cert-hash`, such as `sha256:…`.
    pub(crate) fn parse(token: &str, hashes: &[String]) -> anyhow::Result<Invitation> {
        let token = token.trim();
        let (fingerprint, bare) = match token.strip_prefix(MARK).and_then(|rest| rest.split_once("::")) {
            Some((fingerprint, bare)) => (Some(fingerprint), bare),
            None => (None, token),
        };
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if bare.starts_with("server:") {
            bail!(
                "--token: this is a server token, which a node must not have; give the one that `corten token create` prints"
            )
        }
        let Some((id, secret)) = bare
            .split_once('.')
            .filter(|(id, secret)| id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret))
        else {
            bail!("--token: this is not a bootstrap token; give the one that `corten token create` prints")
        };
        let mut keys = Vec::new();
        for hash in hashes {
            match hash.strip_prefix("sha256:").filter(|digest| is_digest(digest)) {
                Some(digest) => keys.push(digest.to_ascii_lowercase()),
                None => bail!("--discovery-token-ca-cert-hash: {hash:?} is not sha256: and 64 hex digits"),
            }
        }
        let pin = match fingerprint {
            Some(digest) if is_digest(digest) => Pin::Whole(digest.to_ascii_lowercase()),
            Some(_) => bail!("--token: {MARK} is not followed by 64 hex digits; copy the whole token"),
            None if keys.is_empty() => Pin::None,
            None => Pin::Keys(keys),
        };
        Ok(Invitation { id: id.to_owned(), secret: secret.to_owned(), pin, skips_verification: false })
    }

    /// Uses the token even without a CA fingerprint.
    pub(crate) fn skipping_verification(self, skips: bool) -> Invitation {
        Invitation { skips_verification: skips, ..self }
    }

    /// Refuses an invitation without a CA pin: an attacker with a leaked token who intercepts the connection could pose as the API
    /// server, and decide what the node runs.
    pub(crate) fn verifiable(&self) -> anyhow::Result<()> {
        if self.pin == Pin::None && !self.skips_verification {
            bail!(
                "--token: nothing says which cluster this token is from, so another machine could pose as it; give the token \
                 as `corten token create` prints it (K10…::…), or --discovery-token-ca-cert-hash, or accept the risk with \
                 --discovery-token-unsafe-skip-ca-verification"
            )
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// The bearer token for the server.
    pub(crate) fn bearer(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// True if a CA is the one of the invitation.
    pub(crate) fn admits(&self, authority_pem: &str) -> bool {
        match &self.pin {
            Pin::None => true,
            Pin::Whole(digest) => fingerprint(authority_pem) == *digest,
            Pin::Keys(digests) => {
                let certificates = pem_certificates(authority_pem).unwrap_or_default();
                let known = |certificate: &CertificateDer<'_>| {
                    key_of(certificate).is_some_and(|key| digests.contains(&key))
                };
                !certificates.is_empty() && certificates.iter().all(known)
            }
        }
    }
}

/// The digest of a CA certificate, for invitations.
pub(crate) fn fingerprint(authority_pem: &str) -> String {
    hexadecimal(&Sha256::digest(authority_pem))
}

/// The digest of a certificate's public key, in kubeadm's format.
fn key_of(certificate: &CertificateDer<'_>) -> Option<String> {
    public_key_of(certificate).ok().map(|key| hexadecimal(&Sha256::digest(key)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn tokens_are_parsed_with_and_without_fingerprints() {
        let authority = "-----BEGIN CERTIFICATE-----\n";
        let whole = format!("K10{}::{TOKEN}", fingerprint(authority));
        let invitation = Invitation::parse(&whole, &[]).unwrap();
        assert_eq!((invitation.id(), invitation.bearer().as_str()), ("abcdef", TOKEN));
        assert!(invitation.admits(authority) && !invitation.admits("another"));
        let plain = Invitation::parse(TOKEN, &[]).unwrap();
        assert!(plain.admits("anything"), "the token alone has to vouch");
        let refused = plain.verifiable().unwrap_err().to_string();
        assert!(refused.contains("--discovery-token-unsafe-skip-ca-verification"), "{refused}");
        assert!(plain.skipping_verification(true).verifiable().is_ok());
        assert!(invitation.verifiable().is_ok());
        assert_eq!(format!("{invitation:?}"), "Invitation(abcdef)", "the secret is never shown");
    }

    #[test]
    fn ca_key_hashes_are_separate_from_the_token() {
        let made = corten_pki::IssuedCert::self_signed("ca", std::time::SystemTime::now()).unwrap();
        let digest = key_of(&made.chain().unwrap()[0]).unwrap();
        let good = Invitation::parse(TOKEN, &[format!("sha256:{digest}")]).unwrap();
        assert!(good.admits(&made.cert_pem) && !good.admits("") && good.verifiable().is_ok());
        let other = Invitation::parse(TOKEN, &[format!("sha256:{}", "0".repeat(64))]).unwrap();
        assert!(!other.admits(&made.cert_pem));
    }

    #[test]
    fn a_malformed_token_is_rejected_with_a_remedy() {
        let of_server = "K10::server:00000000.1.00";
        for bad in [
            "",
            "abcdef",
            "abcdef.short",
            "ABCDEF.0123456789abcdef",
            "K10::abcdef.0123456789abcdef",
            of_server,
        ] {
            let error = Invitation::parse(bad, &[]).unwrap_err().to_string();
            assert!(error.starts_with("--token: "), "{bad}: {error}");
        }
        assert!(Invitation::parse(TOKEN, &["md5:00".to_owned()]).is_err());
    }
}
