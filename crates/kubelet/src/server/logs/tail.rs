//! Finds the beginning of the last lines of a file.

use std::io::{self, Read, Seek, SeekFrom};

const BLOCK: u64 = 16 * 1024;

/// The offset after which there are this many newlines; zero if there are fewer.
pub(super) fn start(file: &mut (impl Read + Seek), lines: u64) -> io::Result<u64> {
    let mut right = file.seek(SeekFrom::End(0))?;
    let mut seen = 0;
    let mut block = Vec::new();
    while right > 0 {
        let left = right.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(left))?;
        block.clear();
        file.take(right - left).read_to_end(&mut block)?;
        for (at, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            seen += 1;
            if seen > lines {
                return Ok(left + at as u64 + 1);
            }
        }
        right = left;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_last_lines_are_found() {
        let at = |text: &str, lines| start(&mut Cursor::new(text), lines).unwrap();
        for (text, lines, expected) in
            [("a\nb\nc\n", 0, 6), ("a\nb\nc\n", 1, 4), ("a\nb\nc\n", 3, 0), ("a\nb\nc\n", 9, 0), ("", 1, 0)]
        {
            assert_eq!(at(text, lines), expected, "{lines} of {text:?}");
        }
        let long = format!("{}\n", "x".repeat(99)).repeat(1000);
        assert_eq!(at(&long, 400), 60_000);
    }
}
