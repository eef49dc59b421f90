//! Keys for pods, each with a proof of possession for the certificate request.

use std::str::FromStr;

use rcgen::{CertificateParams, DistinguishedName, KeyPair, RsaKeySize};

use crate::{Error, Result};

/// The kinds of keys, by the names that pods give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Rsa3072,
    Rsa4096,
    EcdsaP256,
    EcdsaP384,
    EcdsaP521,
    Ed25519,
}

impl FromStr for KeyKind {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<KeyKind, ()> {
        match name {
            "RSA3072" => Ok(KeyKind::Rsa3072),
            "RSA4096" => Ok(KeyKind::Rsa4096),
            "ECDSAP256" => Ok(KeyKind::EcdsaP256),
            "ECDSAP384" => Ok(KeyKind::EcdsaP384),
            "ECDSAP521" => Ok(KeyKind::EcdsaP521),
            "ED25519" => Ok(KeyKind::Ed25519),
            _ => Err(()),
        }
    }
}

/// A key, and a request without names that proves possession of it.
pub struct Proof {
    /// Private, PKCS #8.
    pub key_pem: String,
    /// A PKCS #10 request, in DER.
    pub request: Vec<u8>,
}

/// Generates a key and its proof of possession.
pub fn prove(kind: KeyKind) -> Result<Proof> {
    let key = match kind {
        KeyKind::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
        KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
        KeyKind::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyKind::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyKind::EcdsaP521 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512),
        KeyKind::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
    };
    let key = key.map_err(Error::crypto("generate a key"))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request =
        params.serialize_request(&key).map_err(Error::crypto("make a certificate signing request"))?;
    Ok(Proof { key_pem: key.serialize_pem(), request: request.der().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_proved() {
        for name in ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"] {
            let proof = prove(name.parse().unwrap()).unwrap();
            assert!(proof.key_pem.starts_with("-----BEGIN PRIVATE KEY-----"), "{name}");
            assert!(!proof.request.is_empty());
        }
        assert_eq!("DSA".parse::<KeyKind>(), Err(()));
    }
}
