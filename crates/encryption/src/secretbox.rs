//! XSalsa20 and Poly1305, as NaCl's `secretbox`: the random nonce (24 bytes), the tag, and the ciphertext.

use crypto_secretbox::aead::Aead;
use crypto_secretbox::{KeyInit, Nonce, XSalsa20Poly1305};

use crate::providers::ProviderError;

/// Key sizes in bytes.
pub(crate) const KEY_SIZES: &[usize] = &[32];
const NONCE: usize = 24;
const TAG: usize = 16;

pub(crate) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    pub(crate) fn new(key: &[u8]) -> Result<Secretbox, ProviderError> {
        XSalsa20Poly1305::new_from_slice(key).map(Secretbox).map_err(|_| ProviderError::Key)
    }

    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| ProviderError::Random)?;
        let sealed = self.0.encrypt(&Nonce::from(nonce), plain).map_err(|_| ProviderError::Encrypt)?;
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(())
    }

    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, ProviderError> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or(ProviderError::Short)?;
        if sealed.len() < TAG {
            return Err(ProviderError::Short);
        }
        self.0.decrypt(&Nonce::from(*nonce), sealed).map_err(|_| ProviderError::Authentication)
    }
}
