//! The keys that sign and verify service-account tokens.
//!
//! A key determines its algorithms: the algorithm in a token can only select among those, so that a public key is never used
//! as a shared secret.

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use corten_api::{Map, Value};
use rustls_pki_types::pem::{PemObject, SectionKind};

/// Invalid key material.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("not PEM")]
    Pem,
    #[error("no RSA or ECDSA key found")]
    None,
    #[error("unsupported key; use RSA with 2048 bits or more, or ECDSA P-256, P-384 or P-521")]
    Unusable,
}

/// The kind of a key: RSA, or ECDSA on a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    P521,
}

/// A curve: its kind, the encoding of its public keys, its signing algorithm.
struct Curve {
    kind: Kind,
    name: &'static str,
    /// The part of a `SubjectPublicKeyInfo` before the point.
    wrapping: &'static [u8],
    point: usize,
    signing: &'static EcdsaSigningAlgorithm,
}

static CURVES: [Curve; 3] = [
    Curve {
        kind: Kind::P256,
        name: "P-256",
        wrapping: b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
        point: 65,
        signing: &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
    },
    Curve {
        kind: Kind::P384,
        name: "P-384",
        wrapping: b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00",
        point: 97,
        signing: &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
    },
    Curve {
        kind: Kind::P521,
        name: "P-521",
        wrapping: b"\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00",
        point: 133,
        signing: &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
    },
];

/// A key that verifies tokens.
#[derive(Debug, Clone)]
pub struct PublicKey {
    id: String,
    kind: Kind,
    /// The uncompressed point of an ECDSA key, the whole `SubjectPublicKeyInfo` of an RSA key.
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Parses a `SubjectPublicKeyInfo`.
    fn from_spki(spki: &[u8]) -> Result<PublicKey, KeyError> {
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, spki));
        for curve in &CURVES {
            match spki.strip_prefix(curve.wrapping) {
                Some(point) if point.len() == curve.point && point[0] == 4 => {
                    return Ok(PublicKey { id, kind: curve.kind, bytes: point.to_owned() });
                }
                _ => {}
            }
        }
        let key = rsa::PublicKey::from_der(spki).map_err(|_| KeyError::Unusable)?;
        if key.modulus_len() < 256 {
            return Err(KeyError::Unusable);
        }
        Ok(PublicKey { id, kind: Kind::Rsa, bytes: spki.to_owned() })
    }

    /// The key id in tokens: a digest of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm of new tokens.
    pub fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa => "RS256",
            Kind::P256 => "ES256",
            Kind::P384 => "ES384",
            Kind::P521 => "ES512",
        }
    }

    /// True if this key made a signature with one of its algorithms.
    pub(super) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn signature::VerificationAlgorithm = match (self.kind, algorithm) {
            (Kind::P256, "ES256") => &signature::ECDSA_P256_SHA256_FIXED,
            (Kind::P384, "ES384") => &signature::ECDSA_P384_SHA384_FIXED,
            (Kind::P521, "ES512") => &signature::ECDSA_P521_SHA512_FIXED,
            (Kind::Rsa, "RS256") => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Kind::Rsa, "RS384") => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Kind::Rsa, "RS512") => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Kind::Rsa, "PS256") => &signature::RSA_PSS_2048_8192_SHA256,
            (Kind::Rsa, "PS384") => &signature::RSA_PSS_2048_8192_SHA384,
            (Kind::Rsa, "PS512") => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return false,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
    }

    /// The key as a JSON web key.
    pub(super) fn to_jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = Map::new();
        jwk.insert("use", "sig");
        jwk.insert("kid", self.id.as_str());
        jwk.insert("alg", self.algorithm());
        if let Some(curve) = CURVES.iter().find(|curve| curve.kind == self.kind) {
            let (x, y) = self.bytes[1..].split_at(curve.point / 2);
            jwk.insert("kty", "EC");
            jwk.insert("crv", curve.name);
            jwk.insert("x", text(x));
            jwk.insert("y", text(y));
        } else if let Ok(key) = rsa::PublicKey::from_der(&self.bytes) {
            jwk.insert("kty", "RSA");
            jwk.insert("n", text(key.modulus().big_endian_without_leading_zero()));
            jwk.insert("e", text(key.exponent().big_endian_without_leading_zero()));
        }
        Value::Object(jwk)
    }
}

/// The keys that verify tokens.
#[derive(Debug, Clone, Default)]
pub struct PublicKeys(Vec<PublicKey>);

impl PublicKeys {
    /// All keys in a PEM text: public keys, and the public parts of private keys.
    pub fn from_pem(pem: &str) -> Result<PublicKeys, KeyError> {
        let mut keys = PublicKeys::default();
        for section in sections(pem) {
            match section? {
                (SectionKind::PublicKey, der) => keys.add(PublicKey::from_spki(&der)?),
                section => keys.extend(SigningKey::from_section(&section)?.map(|key| key.public)),
            }
        }
        if keys.0.is_empty() { Err(KeyError::None) } else { Ok(keys) }
    }

    /// Adds a key.
    pub fn add(&mut self, key: PublicKey) {
        if self.0.iter().all(|known| known.id != key.id) {
            self.0.push(key);
        }
    }

    pub fn extend(&mut self, keys: impl IntoIterator<Item = PublicKey>) {
        keys.into_iter().for_each(|key| self.add(key));
    }

    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.0.iter()
    }

    /// The keys that may have signed a token: the one with its key id, or all if it has none.
    pub(super) fn candidates<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a PublicKey> {
        self.0.iter().filter(move |key| id.is_empty() || key.id == id)
    }
}

impl IntoIterator for PublicKeys {
    type Item = PublicKey;
    type IntoIter = std::vec::IntoIter<PublicKey>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The key that signs new tokens.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// The first private key in a PEM text.
    pub fn from_pem(pem: &str) -> Result<SigningKey, KeyError> {
        for section in sections(pem) {
            if let Some(key) = SigningKey::from_section(&section?)? {
                return Ok(key);
            }
        }
        Err(KeyError::None)
    }

    fn from_section((kind, der): &(SectionKind, Vec<u8>)) -> Result<Option<SigningKey>, KeyError> {
        if !matches!(kind, SectionKind::PrivateKey | SectionKind::EcPrivateKey | SectionKind::RsaPrivateKey) {
            return Ok(None);
        }
        let ecdsa =
            CURVES.iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve.signing, der).ok());
        let pair = match ecdsa {
            Some(pair) => Pair::Ecdsa(pair),
            None => {
                let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
                Pair::Rsa(pair.map_err(|_| KeyError::Unusable)?)
            }
        };
        let spki: PublicKeyX509Der<'_> = match &pair {
            Pair::Ecdsa(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Unusable)?;
        let public = PublicKey::from_spki(spki.as_ref())?;
        Ok(Some(SigningKey { pair, public }))
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A signature in the format of tokens; `None` without randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ecdsa(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

/// The sections of a PEM text of known kinds.
fn sections(pem: &str) -> impl Iterator<Item = Result<(SectionKind, Vec<u8>), KeyError>> + '_ {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()).map(|section| section.map_err(|_| KeyError::Pem))
}
