//! Randomness: object uids, generated names, spread timeouts. Nothing in here is a secret.

use std::cell::RefCell;

/// The bytes that are read from the kernel at once.
const POOL: usize = 1024;

thread_local! {
    /// Random bytes, and the number of unused ones at the beginning.
    static RANDOM: RefCell<([u8; POOL], usize)> = const { RefCell::new(([0; POOL], 0)) };
}

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

/// The suffix of a generated name: five characters without vowels, as upstream's.
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

/// A number below the limit; zero if the limit is zero.
pub(crate) fn below(limit: u128) -> u128 {
    u128::from_ne_bytes(random()).checked_rem(limit).unwrap_or(0)
}

fn random<const N: usize>() -> [u8; N] {
    RANDOM.with_borrow_mut(|(pool, left)| {
        if *left < N {
            // Without randomness there are no keys, no uids and no TLS: the server cannot run.
            getrandom::fill(pool).expect("the kernel gives random bytes");
            *left = POOL;
        }
        let mut bytes = [0; N];
        bytes.copy_from_slice(&pool[*left - N..*left]);
        *left -= N;
        bytes
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uids_are_unique() {
        let all = |_| (0..200).map(|_| uuid()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || all(n))).collect();
        let uids: Vec<String> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(uids.iter().all(|uid| uid.len() == 36 && uid.as_bytes()[14] == b'4'));
        assert_eq!(uids.iter().collect::<HashSet<_>>().len(), 800);
    }
}
