//! ELF executables: the one property that decides whether a program runs in an image without libraries.
//!
//! `xtask` includes this file as well, because it checks the machine before anything else is built. So it uses the
//! standard library only.

const MAGIC: &[u8] = b"\x7fELF";
/// `e_type` of executables and of position-independent executables.
const EXECUTABLE: [u64; 2] = [2, 3];
/// `p_type` of the segment that names the dynamic loader.
const PT_INTERP: u64 = 3;

/// Returns true if `bytes` are an ELF executable that names no dynamic loader and therefore needs no shared library.
pub(crate) fn is_static_executable(bytes: &[u8]) -> bool {
    Header::parse(bytes).is_some_and(|header| {
        EXECUTABLE.contains(&header.kind)
            && header.segments > 0
            && header.segment_types().all(|kind| kind.is_some_and(|kind| kind != PT_INTERP))
    })
}

/// The fields of an ELF header that locate its program headers.
struct Header<'a> {
    bytes: &'a [u8],
    little_endian: bool,
    kind: u64,
    offset: u64,
    segment_size: u64,
    segments: u64,
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Header<'a>> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let little_endian = *bytes.get(5)? == 1;
        let field = |at, size| number(bytes, at, size, little_endian);
        let (offset, segment_size, segments) = match bytes.get(4)? {
            1 => (field(0x1c, 4)?, field(0x2a, 2)?, field(0x2c, 2)?),
            2 => (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?),
            _ => return None,
        };
        Some(Header { bytes, little_endian, kind: field(0x10, 2)?, offset, segment_size, segments })
    }

    /// The type of every program header; `None` for one that is outside the file.
    fn segment_types(&self) -> impl Iterator<Item = Option<u64>> {
        (0..self.segments).map(|index| {
            let at = self.offset.checked_add(index * self.segment_size)?;
            number(self.bytes, usize::try_from(at).ok()?, 4, self.little_endian)
        })
    }
}

fn number(bytes: &[u8], at: usize, size: usize, little_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(if little_endian { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An executable of one class and byte order with program headers of these types.
    fn executable(is_64: bool, little_endian: bool, kind: u16, segments: &[u32]) -> Vec<u8> {
        let (header, segment) = if is_64 { (64_u16, 56_u16) } else { (52, 32) };
        let short = |value: u16| if little_endian { value.to_le_bytes() } else { value.to_be_bytes() };
        let word = |value: u32| if little_endian { value.to_le_bytes() } else { value.to_be_bytes() };
        let mut bytes = vec![0; usize::from(header)];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = if is_64 { 2 } else { 1 };
        bytes[5] = if little_endian { 1 } else { 2 };
        bytes[0x10..0x12].copy_from_slice(&short(kind));
        // The upper half of a 64-bit offset comes first in big-endian files.
        let offset = match (is_64, little_endian) {
            (false, _) => 0x1c,
            (true, true) => 0x20,
            (true, false) => 0x24,
        };
        bytes[offset..offset + 4].copy_from_slice(&word(u32::from(header)));
        let size = if is_64 { 0x36 } else { 0x2a };
        bytes[size..size + 2].copy_from_slice(&short(segment));
        bytes[size + 2..size + 4].copy_from_slice(&short(u16::try_from(segments.len()).unwrap()));
        for kind in segments {
            bytes.extend(word(*kind));
            bytes.resize(bytes.len() + usize::from(segment) - 4, 0);
        }
        bytes
    }

    #[test]
    fn an_executable_with_a_loader_is_not_static() {
        for (is_64, little_endian) in [(true, true), (true, false), (false, true), (false, false)] {
            let is_static = |kind, segments: &[u32]| {
                is_static_executable(&executable(is_64, little_endian, kind, segments))
            };
            assert!(is_static(2, &[1, 1, 4]), "{is_64} {little_endian}");
            assert!(is_static(3, &[6, 1, 2]), "{is_64} {little_endian}");
            assert!(!is_static(3, &[6, 3, 1]), "{is_64} {little_endian}");
            assert!(!is_static(1, &[1]), "an object file");
            assert!(!is_static(2, &[]), "a file without segments");
        }
    }

    #[test]
    fn other_files_are_not_static_executables() {
        assert!(!is_static_executable(b""));
        assert!(!is_static_executable(b"#!/bin/sh\n"));
        let whole = executable(true, true, 2, &[1, 1]);
        for length in 0..=64 + 56 {
            assert!(!is_static_executable(&whole[..length]), "the first {length} bytes");
        }
    }

    #[test]
    fn test_programs_are_dynamic() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(is_static_executable(&program), cfg!(target_feature = "crt-static"));
    }
}
