//! Mutated inputs for the fuzz bodies, from their corpora, without a fuzzer: every run tries the same ones.
//!
//! A fuzzer that sees coverage finds more, and needs nightly (`fuzz/fuzz_targets`). This is what every test run can
//! afford: the corpus as it is, and then a number of mutations of it that depends on nothing but a seed.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Longer inputs are cut: what is quadratic in the size of an input is a decoder's bug, not the mutator's.
const MAX_INPUT: usize = 16 << 10;

/// Bytes that formats give a meaning to.
const SPECIAL: [u8; 16] =
    [0, 1, 2, 0x7f, 0x80, 0xc0, 0xfe, 0xff, b'"', b'{', b'\n', b' ', b',', b'/', b'0', b'9'];

/// Numbers at the edges of what lengths and counts can be.
const EDGES: [u32; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// The folder that holds the corpora, a folder for each body.
pub fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// The inputs in a body's corpus, by the names of their files.
pub fn corpus(body: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for file in fs::read_dir(corpora().join(body))? {
        paths.push(file?.path());
    }
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// A source of numbers that are the same in every run (xorshift64*).
pub struct Random(u64);

impl Random {
    /// Any seed will do; 0 is taken as 1.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound; 0 if the bound is.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % bound.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// A copy of one of the seeds with up to eight changes.
pub fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..=random.below(8) {
        change(&mut bytes, seeds, random);
    }
    bytes.truncate(MAX_INPUT);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(32)).min(bytes.len());
    match random.below(9) {
        0 => with_byte(bytes, at, |byte| byte ^ 1 << random.below(8)),
        1 => with_byte(bytes, at, |_| random.next() as u8),
        2 => with_byte(bytes, at, |_| random.pick(&SPECIAL).copied().unwrap_or_default()),
        3 => with_byte(bytes, at, |byte| byte.wrapping_add(random.below(7) as u8).wrapping_sub(3)),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let doubled = bytes[at..end].to_vec();
            bytes.splice(at..at, doubled);
        }
        6 => {
            let edge = random.pick(&EDGES).copied().unwrap_or_default();
            let number = if random.below(2) == 0 { edge.to_be_bytes() } else { edge.to_le_bytes() };
            let end = (at + number.len()).min(bytes.len());
            bytes.splice(at..end, number);
        }
        7 => {
            let other = random.pick(seeds).map_or(&[][..], Vec::as_slice);
            let from = random.below(other.len());
            let piece = other[from..(from + 1 + random.below(64)).min(other.len())].to_vec();
            bytes.splice(at..end, piece);
        }
        _ => bytes.truncate(at),
    }
}

fn with_byte(bytes: &mut [u8], at: usize, change: impl FnOnce(u8) -> u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = change(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_in_every_run() {
        let seeds = [b"some text".to_vec(), vec![0; 40]];
        let inputs = |seed: u64| {
            let mut random = Random::new(seed);
            (0..100).map(|_| mutated(&seeds, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
        let different = inputs(7).iter().filter(|input| !seeds.contains(input)).count();
        assert!(different > 90, "{different} of 100 inputs are mutations");
    }
}
