//! The passphrase of an archive, and the key that Argon2id derives from it.
//!
//! Invariant: the parameters of a key come from an archive, which may be hostile, so they have bounds in memory and time.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::archive::ArchiveError;

/// The parameters of new archives: the second recommendation of RFC 9106.
const MEMORY_KIB: u32 = 64 << 10;
const ITERATIONS: u32 = 3;
const LANES: u32 = 4;
/// The largest parameters that are read.
const MAX_MEMORY_KIB: u32 = 256 << 10;
const MAX_ITERATIONS: u32 = 10;
const MAX_LANES: u32 = 16;
const SALT: usize = 16;
const MIN_LENGTH: usize = 8;
const MAX_LENGTH: usize = 1024;

/// A passphrase, erased from memory when it is dropped.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The passphrase of a file's content: its first line.
    pub fn of_file(content: Vec<u8>) -> Result<Passphrase, String> {
        let content = Zeroizing::new(content);
        let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&line.len()) {
            return Err(format!("a passphrase has {MIN_LENGTH} to {MAX_LENGTH} bytes, in the first line"));
        }
        Ok(Passphrase(Zeroizing::new(line.to_vec())))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

/// The parameters of a key, as an archive's header has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyParameters {
    function: Function,
    #[serde(rename = "memoryKiB")]
    memory_kib: u32,
    iterations: u32,
    lanes: u32,
    salt: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Function {
    #[serde(rename = "argon2id")]
    Argon2id,
}

pub(crate) type Key = Zeroizing<[u8; 32]>;

impl KeyParameters {
    /// The parameters of a new archive, with a salt of its own.
    pub(crate) fn random() -> Result<KeyParameters, ArchiveError> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt).map_err(|_| ArchiveError::Random)?;
        Ok(KeyParameters {
            function: Function::Argon2id,
            memory_kib: MEMORY_KIB,
            iterations: ITERATIONS,
            lanes: LANES,
            salt: STANDARD.encode(salt),
        })
    }

    /// Checks the bounds.
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        let in_bounds = (1..=MAX_LANES).contains(&self.lanes)
            && (1..=MAX_ITERATIONS).contains(&self.iterations)
            && (8 * self.lanes..=MAX_MEMORY_KIB).contains(&self.memory_kib)
            && STANDARD.decode(&self.salt).is_ok_and(|salt| salt.len() == SALT);
        if in_bounds { Ok(()) } else { Err(ArchiveError::Header("its key parameters are out of bounds")) }
    }

    /// Derives the key. Takes memory and time on purpose.
    pub(crate) fn derive(&self, passphrase: &Passphrase) -> Result<Key, ArchiveError> {
        self.check()?;
        let invalid = || ArchiveError::Header("its key parameters are invalid");
        let salt = STANDARD.decode(&self.salt).map_err(|_| invalid())?;
        let mut key = Key::default();
        let parameters = Params::new(self.memory_kib, self.iterations, self.lanes, Some(key.len()));
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters.map_err(|_| invalid())?);
        argon.hash_password_into(&passphrase.0, &salt, &mut *key).map_err(|_| invalid())?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_an_archive_have_bounds() {
        let good = KeyParameters::random().unwrap();
        good.check().unwrap();
        for bad in [
            KeyParameters { memory_kib: MAX_MEMORY_KIB + 1, ..good.clone() },
            KeyParameters { memory_kib: u32::MAX, ..good.clone() },
            KeyParameters { memory_kib: 8, ..good.clone() },
            KeyParameters { iterations: MAX_ITERATIONS + 1, ..good.clone() },
            KeyParameters { iterations: 0, ..good.clone() },
            KeyParameters { lanes: 0, ..good.clone() },
            KeyParameters { lanes: MAX_LANES + 1, ..good.clone() },
            KeyParameters { salt: String::new(), ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
            assert!(bad.derive(&Passphrase::of_file(b"long enough".to_vec()).unwrap()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_passphrase_is_the_first_line_of_its_file() {
        let of = |text: &str| Passphrase::of_file(text.as_bytes().to_vec()).map(|found| found.0.to_vec());
        assert_eq!(of("correct horse\r\nbattery\n").unwrap(), b"correct horse");
        for bad in ["", "short\nlong enough otherwise", &"x".repeat(MAX_LENGTH + 1)] {
            assert!(of(bad).is_err());
        }
    }
}
