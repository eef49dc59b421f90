//! Server tokens, the secrets with which machines join as further servers:
//! `K10<fingerprint of the CA>::server:<id>.<expiry>.<secret>`. Pure.
//!
//! The secret is an authentication code of id and expiry under a key that follows from the cluster's CA key. So each server
//! can verify a token, only an administrator of a server's machine can make one, and nothing of it is stored: no access to the
//! API or the datastore is a way to a token. A token is never sent: both sides prove that they have it, and what a server hands
//! over is sealed with it (`exchange`).

use std::fmt;

use anyhow::{Context, bail};
use aws_lc_rs::hmac;

/// The prefix of tokens with a fingerprint, and the mark of a server token behind the fingerprint.
const MARK: &str = "K10";
const SERVER: &str = "server:";
const ID_LENGTH: usize = 8;
/// Separates the use of the CA key here from all others.
const PURPOSE: &[u8] = b"corten server tokens, version 1";

/// The key of all tokens of a cluster.
pub(crate) struct TokenKey(hmac::Key);

/// A token as a machine has it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerToken {
    fingerprint: String,
    claims: Claims,
    secret: String,
}

/// The public part of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(super) id: String,
    /// In seconds since 1970.
    pub(super) expires: i64,
}

impl fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerToken({})", self.claims.id)
    }
}

impl TokenKey {
    /// The key of the cluster with this CA key, in PEM.
    pub(crate) fn of(authority_key_pem: &str) -> TokenKey {
        let of_authority = hmac::Key::new(hmac::HMAC_SHA256, authority_key_pem.trim().as_bytes());
        TokenKey(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&of_authority, PURPOSE).as_ref()))
    }

    /// Makes a token with a random id.
    pub(crate) fn issue(&self, fingerprint: &str, expires: i64) -> anyhow::Result<ServerToken> {
        let mut id = [0; ID_LENGTH / 2];
        getrandom::fill(&mut id).context("cannot read random numbers")?;
        let claims = Claims { id: hexadecimal(&id), expires };
        let secret = self.secret(&claims);
        Ok(ServerToken { fingerprint: fingerprint.to_owned(), claims, secret })
    }

    /// The secret that belongs to claims.
    pub(super) fn secret(&self, claims: &Claims) -> String {
        hexadecimal(hmac::sign(&self.0, format!("{}.{}", claims.id, claims.expires).as_bytes()).as_ref())
    }
}

impl Claims {
    /// The claims of a request, if they have the form of claims.
    pub(super) fn new(id: &str, expires: i64) -> Option<Claims> {
        (id.len() == ID_LENGTH && is_hexadecimal(id)).then(|| Claims { id: id.to_owned(), expires })
    }
}

impl ServerToken {
    /// Parses a token as `corten token create --server` prints it.
    pub(crate) fn parse(text: &str) -> anyhow::Result<ServerToken> {
        let text = text.trim();
        let whole = text.strip_prefix(MARK).and_then(|rest| rest.split_once("::"));
        let Some((fingerprint, bare)) = whole else {
            bail!(
                "--token: this is not a server token; give the one that `corten token create --server` prints"
            )
        };
        let Some(bare) = bare.strip_prefix(SERVER) else {
            bail!(
                "--token: this is a node's token, with which no machine joins as a server; give the one that \
                 `corten token create --server` prints"
            )
        };
        let mut parts = bare.splitn(3, '.');
        let (id, expires, secret) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        let expires = expires.and_then(|expires| expires.parse().ok());
        let claims = id.zip(expires).and_then(|(id, expires)| Claims::new(id, expires));
        match claims {
            Some(claims) if is_digest(fingerprint) && is_digest(secret) => {
                Ok(ServerToken { fingerprint: fingerprint.to_owned(), claims, secret: secret.to_owned() })
            }
            _ => bail!("--token: this server token is not complete; copy the whole line"),
        }
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// The text of the token.
    pub(crate) fn reveal(&self) -> String {
        let Claims { id, expires } = &self.claims;
        format!("{MARK}{}::{SERVER}{id}.{expires}.{}", self.fingerprint, self.secret)
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && is_hexadecimal(text)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint() -> String {
        "0f".repeat(32)
    }

    #[test]
    fn a_token_is_parsed_as_it_is_printed() {
        let token = TokenKey::of("key").issue(&fingerprint(), 1_800_000_000).unwrap();
        assert_eq!(ServerToken::parse(&format!(" {}\n", token.reveal())).unwrap(), token);
        assert_eq!(
            format!("{token:?}"),
            format!("ServerToken({})", token.claims.id),
            "the secret is not shown"
        );
    }

    #[test]
    fn a_secret_belongs_to_one_id_one_expiry_and_one_cluster() {
        let key = TokenKey::of("-----BEGIN key-----\n");
        let claims = |id: &str, expires| Claims::new(id, expires).unwrap();
        let secret = key.secret(&claims("00000001", 10));
        assert_eq!(TokenKey::of("-----BEGIN key-----").secret(&claims("00000001", 10)), secret);
        assert_ne!(key.secret(&claims("00000002", 10)), secret);
        assert_ne!(key.secret(&claims("00000001", 11)), secret);
        assert_ne!(TokenKey::of("other").secret(&claims("00000001", 10)), secret);
    }

    #[test]
    fn other_tokens_are_refused_with_a_remedy() {
        let node = format!("K10{}::abcdef.0123456789abcdef", fingerprint());
        let said = ServerToken::parse(&node).unwrap_err().to_string();
        assert!(said.contains("a node's token") && said.contains("corten token create --server"), "{said}");
        let good = TokenKey::of("key").issue(&fingerprint(), 1).unwrap().reveal();
        let cut = &good[..good.len() - 1];
        for bad in ["", "abcdef.0123456789abcdef", cut, "K10::server:00000001.1.00"] {
            let said = ServerToken::parse(bad).unwrap_err().to_string();
            assert!(said.starts_with("--token: "), "{bad}: {said}");
        }
        assert!(Claims::new("0000000", 1).is_none() && Claims::new("0000000G", 1).is_none());
    }
}
