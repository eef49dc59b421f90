//! AES-GCM whose nonces never wear out: every value has a key of its own, which HKDF-SHA256 expands from a seed and 32 random
//! bytes.
//!
//! A sealed value is these bytes and what [`Gcm`] makes of the value. The seed is a pseudo-random key, so that only the
//! expanding half of HKDF is used.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

use crate::aes::Gcm;
use crate::providers::ProviderError;

/// The size of a seed, of a key that is expanded from it, and of the random bytes.
pub(crate) const SIZE: usize = 32;

pub(crate) struct Seed(Prk);

struct DerivedKey;

impl KeyType for DerivedKey {
    fn len(&self) -> usize {
        SIZE
    }
}

impl Seed {
    pub(crate) fn new(seed: &[u8]) -> Result<Seed, ProviderError> {
        if seed.len() < SIZE {
            return Err(ProviderError::Seed(seed.len()));
        }
        Ok(Seed(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    pub(crate) fn seal(&self, plain: &[u8], context: &[u8], out: &mut Vec<u8>) -> Result<(), ProviderError> {
        let mut info = [0; SIZE];
        getrandom::fill(&mut info).map_err(|_| ProviderError::Random)?;
        out.extend_from_slice(&info);
        self.key(&info)?.seal(plain, context, out)
    }

    pub(crate) fn open(&self, sealed: &[u8], context: &[u8]) -> Result<Vec<u8>, ProviderError> {
        let (info, sealed) = sealed.split_first_chunk::<SIZE>().ok_or(ProviderError::Short)?;
        self.key(info)?.open(sealed, context)
    }

    fn key(&self, info: &[u8; SIZE]) -> Result<Gcm, ProviderError> {
        let mut key = Zeroizing::new([0; SIZE]);
        let info = [&info[..]];
        let expanded = self.0.expand(&info, DerivedKey).map_err(|_| ProviderError::Key)?;
        expanded.fill(&mut *key).map_err(|_| ProviderError::Key)?;
        Gcm::new(&*key)
    }
}
