//! Randomness: object uids, generated names, spread timeouts.

/// A version 4 UUID.
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(b"0123456789abcdef"[digit as usize]));
        }
    }
    out
}

/// The suffix of a generated name: five characters that spell no words.
pub(crate) fn name_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes: [u8; 5] = random();
    bytes.iter().map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()])).collect()
}

/// Between zero and one.
pub(crate) fn fraction() -> f64 {
    let bytes: [u8; 4] = random();
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

/// A number below another; zero below zero.
pub(crate) fn below(limit: u128) -> u128 {
    u128::from_ne_bytes(random()).checked_rem(limit).unwrap_or(0)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // A machine without randomness can serve nobody: there are no keys, no uids, no TLS.
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
}
