//! The identity of this API server, as upstream derives it from the name of its machine.

use std::fs;

use sha2::{Digest, Sha256};

const COMPONENT: &str = "kube-apiserver";
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The hash of this server's identity, as metrics have it.
pub(crate) fn hash() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    sha256(of_machine(name.trim()).as_bytes())
}

/// `apiserver-`, and a hash of the machine's name.
fn of_machine(name: &str) -> String {
    let mut hash = Sha256::new();
    for text in [name, COMPONENT] {
        hash.update(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        hash.update(text);
    }
    let digest = hash.finalize();
    format!("apiserver-{}", base32(&digest[..16]))
}

/// A hash with its algorithm, `sha256:…`.
pub(crate) fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Base 32 without padding.
fn base32(bytes: &[u8]) -> String {
    let digit = |at: usize| {
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
        let value = (0..5).fold(0, |value, offset| value << 1 | bit(at * 5 + offset));
        char::from(DIGITS[value])
    };
    (0..(bytes.len() * 8).div_ceil(5)).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_that_of_upstream() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(b"f"), "my");
        let id = of_machine("node");
        assert_eq!((id.len(), id.starts_with("apiserver-")), (36, true), "{id}");
        assert_ne!(id, of_machine("node2"));
        assert_eq!(sha256(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
