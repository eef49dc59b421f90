//! Hashes in names of chains and sets, the same as upstream's, so that operators and tools recognize them.

use sha2::{Digest, Sha256};

const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The first letters of a text's SHA-256 in base 32.
pub(crate) fn hash(text: &str, letters: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bit = |n: usize| digest.get(n / 8).map_or(0, |byte| byte >> (7 - n % 8) & 1);
    let letter = |n: usize| (0..5).fold(0, |sum, at| sum << 1 | usize::from(bit(n * 5 + at)));
    (0..letters).map(|n| char::from(LETTERS[letter(n)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_base_32() {
        assert_eq!(hash("ns1/svc1/tcp/p80", 8), "ULMVA6XW");
        assert_eq!(hash("ns1/svc1/tcp/p80__10.180.0.1/80", 8), "5OJB2KTY");
    }
}
