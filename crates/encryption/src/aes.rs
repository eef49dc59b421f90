//! AES in the two modes that upstream offers: GCM, which authenticates the object's key in the store, and CBC, which does not
//! authenticate at all.
//!
//! A sealed value is the random nonce (GCM, 12 bytes) or initialization vector (CBC, 16 bytes) and the ciphertext. Never
//! reuses a nonce: it is random for every value, as upstream's.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, AES_CBC_IV_LEN, DecryptionContext, EncryptionContext,
    PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use crate::providers::ProviderError;

/// Key sizes in bytes.
pub(crate) const KEY_SIZES: &[usize] = &[16, 24, 32];

pub(crate) struct Gcm(LessSafeKey);

impl Gcm {
    pub(crate) fn new(key: &[u8]) -> Result<Gcm, ProviderError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            _ => &AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| ProviderError::Key)?;
        Ok(Gcm(LessSafeKey::new(key)))
    }

    pub(crate) fn seal(&self, plain: &[u8], context: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| ProviderError::Random)?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(plain);
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context),
                &mut out[start..],
            )
            .map_err(|_| ProviderError::Encrypt)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    pub(crate) fn open(&self, sealed: &[u8], context: &[u8]) -> Result<Vec<u8>, ProviderError> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(ProviderError::Short)?;
        let mut bytes = sealed.to_vec();
        let plain = self
            .0
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(context), &mut bytes)
            .map_err(|_| ProviderError::Authentication)?
            .len();
        bytes.truncate(plain);
        Ok(bytes)
    }
}

pub(crate) struct Cbc {
    encrypting: PaddedBlockEncryptingKey,
    decrypting: PaddedBlockDecryptingKey,
}

impl Cbc {
    pub(crate) fn new(key: &[u8]) -> Result<Cbc, ProviderError> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            _ => &AES_256,
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).map_err(|_| ProviderError::Key);
        Ok(Cbc {
            encrypting: PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).map_err(|_| ProviderError::Key)?,
            decrypting: PaddedBlockDecryptingKey::cbc_pkcs7(unbound()?).map_err(|_| ProviderError::Key)?,
        })
    }

    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        let mut iv = [0; AES_CBC_IV_LEN];
        getrandom::fill(&mut iv).map_err(|_| ProviderError::Random)?;
        let mut bytes = plain.to_vec();
        self.encrypting
            .less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(FixedLength::from(iv)))
            .map_err(|_| ProviderError::Encrypt)?;
        out.extend_from_slice(&iv);
        out.append(&mut bytes);
        Ok(())
    }

    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, ProviderError> {
        let (iv, sealed) = sealed.split_first_chunk::<AES_CBC_IV_LEN>().ok_or(ProviderError::Short)?;
        if !sealed.len().is_multiple_of(AES_CBC_IV_LEN) {
            return Err(ProviderError::Blocks);
        }
        let mut bytes = sealed.to_vec();
        let plain = self
            .decrypting
            .decrypt(&mut bytes, DecryptionContext::Iv128(FixedLength::from(*iv)))
            .map_err(|_| ProviderError::Padding)?
            .len();
        bytes.truncate(plain);
        Ok(bytes)
    }
}
