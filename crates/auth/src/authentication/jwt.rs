//! JSON web tokens in their compact form: parsing, verification, signing.
//!
//! Strict: exactly three parts without padding; no critical extensions; no keys in the token. Before verification only the
//! issuer is accessible.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use corten_api::{Value, json};

use super::{PublicKeys, Refusal, SigningKey};

/// An unverified token.
#[derive(Debug)]
pub struct Token<'a> {
    algorithm: String,
    key_id: String,
    has_critical: bool,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Parses a token; `None` if the text is not one.
    pub fn parse(text: &'a str) -> Option<Token<'a>> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let object = |part: &str| {
            let value = json::parse(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
            value.as_object().is_some().then_some(value)
        };
        let header = object(header)?;
        if header.get("jwk").is_some() {
            return None;
        }
        let text = |key| match header.get(key) {
            None | Some(Value::Null) => Some(String::new()),
            Some(value) => value.as_str().map(str::to_owned),
        };
        Some(Token {
            algorithm: text("alg")?,
            key_id: text("kid")?,
            has_critical: header
                .get("crit")
                .is_some_and(|crit| crit.as_array().is_none_or(|c| !c.is_empty())),
            claims: object(claims)?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// The unverified issuer.
    pub fn issuer(&self) -> &str {
        self.claims.str_at(&["iss"]).unwrap_or_default()
    }

    /// Verifies the signature with one of the keys, and returns the claims.
    pub fn verify(self, keys: &PublicKeys) -> Result<Value, Refusal> {
        if keys.candidates(&self.key_id).next().is_none() {
            return Err(Refusal::NoKey);
        }
        let message = self.signed.as_bytes();
        let verifies = !self.has_critical
            && keys.candidates(&self.key_id).any(|key| key.verify(&self.algorithm, message, &self.signature));
        if verifies { Ok(self.claims) } else { Err(Refusal::Signature) }
    }
}

impl SigningKey {
    /// A signed token with these claims; `None` if signing fails.
    pub fn token(&self, claims: &Value) -> Option<String> {
        let header = format!(r#"{{"alg":"{}","kid":"{}"}}"#, self.public().algorithm(), self.public().id());
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(json::write_to_string(claims), &mut token);
        let signature = self.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Some(token)
    }
}

#[cfg(test)]
mod tests;
