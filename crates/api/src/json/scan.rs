//! Finds special characters in a string, eight bytes at a time.

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Marks the bytes of a word that are zero, exactly up to and including the first.
const fn zeroes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Marks the bytes of a word that JSON cannot carry as they are inside a string: quotes, backslashes and control
/// characters. Exactly up to and including the first.
const fn special(word: u64) -> u64 {
    let quotes = zeroes(word ^ (ONES * b'"' as u64));
    let backslashes = zeroes(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    quotes | backslashes | controls
}

/// The position of the first special byte, or the length if there is none.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let special = special(u64::from_le_bytes(*chunk));
        if special != 0 {
            // Only marks after a true one can be false, so the first is right.
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    // The last word overlaps with bytes that were already checked.
    if let Some(chunk) = bytes.last_chunk::<8>() {
        let special = special(u64::from_le_bytes(*chunk));
        return bytes.len() - 8 + special.trailing_zeros() as usize / 8;
    }
    bytes.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found() {
        for length in 0..40 {
            let plain: Vec<u8> =
                (0..length).map(|i| if i % 3 == 0 { 0xc3 } else { b'a' + i as u8 % 20 }).collect();
            assert_eq!(plain_run(&plain), length);
            for at in 0..length {
                for special in [b'"', b'\\', 0, 1, 0x1f] {
                    let mut text = plain.clone();
                    text[at] = special;
                    assert_eq!(plain_run(&text), at, "{special} at {at} of {length}");
                    if at + 1 < length {
                        text[at + 1] = b'"';
                        assert_eq!(plain_run(&text), at);
                    }
                }
                let mut text = plain.clone();
                text[at] = b'!';
                assert_eq!(plain_run(&text), length, "! is next to the quote");
                text[at] = b' ';
                assert_eq!(plain_run(&text), length);
            }
        }
    }
}
