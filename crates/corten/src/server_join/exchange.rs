//! The request of a machine that joins as a server, and the response: who may have the cluster's keys, and how they travel.
//!
//! ```text
//! machine                                         server
//!   claims, nonce, proof = HMAC(secret, nonce)  ─►  verifies the claims' secret, expiry and the proof
//!   opens                                       ◄─  sealed = AES-256-GCM(HMAC(secret, both nonces), material)
//! ```
//!
//! Invariants: the token's secret is not in either message; a response can be opened only with the token and only for the
//! request that it answers. So the keys stay secret even if the TLS connection is not with whom it seems. Pure.

use anyhow::{Context, anyhow, bail};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::token::{Claims, ServerToken, TokenKey, hexadecimal};

const VERSION: u64 = 1;
const REQUEST: &[u8] = b"corten server join, request";
const RESPONSE: &[u8] = b"corten server join, response";

/// The random number that makes a request unique.
type RequestNonce = [u8; 32];

/// A request of this machine, which waits for its response.
pub(super) struct Asked {
    token: ServerToken,
    nonce: RequestNonce,
}

/// A request that was proven.
pub(super) struct Proven {
    pub(super) claims: Claims,
    secret: String,
    nonce: RequestNonce,
}

/// The reason why a request is refused. The text is for the machine that asks, which is not trusted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Refusal {
    #[error("this is not a request of a server that joins")]
    Malformed,
    #[error("the server token is not of this cluster; create one with `corten token create --server`")]
    Token,
    #[error("the server token has expired; create a new one with `corten token create --server`")]
    Expired,
}

impl Asked {
    pub(super) fn new(token: ServerToken) -> anyhow::Result<Asked> {
        let mut nonce = RequestNonce::default();
        getrandom::fill(&mut nonce).context("cannot read random numbers")?;
        Ok(Asked { token, nonce })
    }

    /// The body of the request.
    pub(super) fn body(&self) -> Vec<u8> {
        let Claims { id, expires } = self.token.claims();
        let proof = hmac::sign(&key_of(self.token.secret()), &message(REQUEST, &self.nonce));
        let body = json!({
            "version": VERSION, "id": id, "expires": expires, "nonce": STANDARD.encode(self.nonce),
            "proof": STANDARD.encode(proof.as_ref()),
        });
        body.to_string().into_bytes()
    }

    /// Opens the response.
    pub(super) fn open(&self, body: &[u8]) -> anyhow::Result<Value> {
        let foreign = || anyhow!("the response was not sealed with the server token");
        let body: Value = serde_json::from_slice(body).map_err(|_| foreign())?;
        let sealed = STANDARD.decode(body["sealed"].as_str().unwrap_or_default()).map_err(|_| foreign())?;
        let Some((nonce, sealed)) = sealed.split_at_checked(NONCE_LEN) else { bail!(foreign()) };
        let mut sealed = sealed.to_vec();
        let unique = Nonce::try_assume_unique_for_key(nonce).map_err(|_| foreign())?;
        let key = sealing_key(self.token.secret(), &self.nonce, nonce)?;
        let plain = key.open_in_place(unique, Aad::from(RESPONSE), &mut sealed).map_err(|_| foreign())?;
        serde_json::from_slice(plain).map_err(|_| foreign())
    }
}

/// Verifies a request at a time, in seconds since 1970.
pub(super) fn verify(key: &TokenKey, body: &[u8], now: i64) -> Result<Proven, Refusal> {
    let body: Value = serde_json::from_slice(body).map_err(|_| Refusal::Malformed)?;
    let bytes = |name: &str| STANDARD.decode(body[name].as_str().unwrap_or_default()).unwrap_or_default();
    let claims = body["id"].as_str().zip(body["expires"].as_i64());
    let claims = claims.and_then(|(id, expires)| Claims::new(id, expires)).ok_or(Refusal::Malformed)?;
    let nonce: RequestNonce = bytes("nonce").try_into().map_err(|_| Refusal::Malformed)?;
    if body["version"].as_u64() != Some(VERSION) {
        return Err(Refusal::Malformed);
    }
    let secret = key.secret(&claims);
    hmac::verify(&key_of(&secret), &message(REQUEST, &nonce), &bytes("proof")).map_err(|_| Refusal::Token)?;
    // The expiry counts only once it is proven to be the token's own.
    if claims.expires <= now { Err(Refusal::Expired) } else { Ok(Proven { claims, secret, nonce }) }
}

impl Proven {
    /// The body of the response.
    pub(super) fn seal(&self, material: &Value) -> anyhow::Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).context("cannot read random numbers")?;
        let mut sealed = material.to_string().into_bytes();
        let key = sealing_key(&self.secret, &self.nonce, &nonce)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::from(RESPONSE), &mut sealed)
            .map_err(|_| anyhow!("cannot seal the response"))?;
        let whole = [&nonce[..], &sealed].concat();
        Ok(json!({"sealed": STANDARD.encode(whole)}).to_string().into_bytes())
    }
}

/// The key of one response: no other has the same nonces.
fn sealing_key(secret: &str, asked: &RequestNonce, nonce: &[u8]) -> anyhow::Result<LessSafeKey> {
    let both = [&asked[..], nonce].concat();
    let key = hmac::sign(&key_of(secret), &message(RESPONSE, &both));
    let key =
        UnboundKey::new(&AES_256_GCM, key.as_ref()).map_err(|_| anyhow!("cannot make a sealing key"))?;
    Ok(LessSafeKey::new(key))
}

fn key_of(secret: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

fn message(purpose: &[u8], nonce: &[u8]) -> Vec<u8> {
    [purpose, b"\0", hexadecimal(nonce).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn token(key: &TokenKey) -> ServerToken {
        key.issue(&"0f".repeat(32), NOW + 60).unwrap()
    }

    fn refusal(key: &TokenKey, body: &[u8], now: i64) -> Refusal {
        match verify(key, body, now) {
            Ok(_) => panic!("the request is accepted"),
            Err(refusal) => refusal,
        }
    }

    #[test]
    fn material_travels_to_the_holder_of_the_token() {
        let key = TokenKey::of("ca");
        let asked = Asked::new(token(&key)).unwrap();
        let body = asked.body();
        let proven = verify(&key, &body, NOW).unwrap();
        let response = proven.seal(&json!({"pki": {"ca.key": "secret"}})).unwrap();
        assert_eq!(asked.open(&response).unwrap()["pki"]["ca.key"], "secret");
        for message in [&body, &response] {
            let text = String::from_utf8(message.clone()).unwrap();
            assert!(!text.contains(asked.token.secret()) && !text.contains("ca.key"), "{text}");
        }
        // The response to another request, or of another token, cannot be opened.
        let other = Asked::new(asked.token.clone()).unwrap();
        assert!(other.open(&response).is_err());
        let stranger = Asked { token: token(&key), nonce: asked.nonce };
        assert!(stranger.open(&response).is_err());
        let mut changed = response;
        let at = changed.len() - 8;
        changed[at] ^= 1;
        assert!(asked.open(&changed).is_err());
        for garbage in [&b""[..], b"{}", b"{\"sealed\":\"AAAA\"}", b"{\"sealed\":7}"] {
            assert!(asked.open(garbage).is_err());
        }
    }

    #[test]
    fn requests_without_a_valid_token_are_refused() {
        let key = TokenKey::of("ca");
        let good = Asked::new(token(&key)).unwrap().body();
        assert_eq!(refusal(&TokenKey::of("another ca"), &good, NOW), Refusal::Token);
        assert_eq!(refusal(&key, &good, NOW + 60), Refusal::Expired);
        let with = |name: &str, value: Value| {
            let mut body: Value = serde_json::from_slice(&good).unwrap();
            body[name] = value;
            body.to_string().into_bytes()
        };
        let nonce = STANDARD.encode([0; 32]);
        for (changed, expected) in [
            (with("expires", json!(NOW + 3600)), Refusal::Token),
            (with("id", json!("00000000")), Refusal::Token),
            (with("nonce", json!(nonce)), Refusal::Token),
            (with("proof", json!(nonce)), Refusal::Token),
            (with("proof", json!("")), Refusal::Token),
            (with("version", json!(2)), Refusal::Malformed),
            (with("nonce", json!("AAAA")), Refusal::Malformed),
            (with("id", json!("../../ca")), Refusal::Malformed),
            (b"K10::server:".to_vec(), Refusal::Malformed),
            (Vec::new(), Refusal::Malformed),
        ] {
            assert_eq!(refusal(&key, &changed, NOW), expected, "{}", String::from_utf8_lossy(&changed));
        }
    }
}
