//! An encoder for the subset of DER that certificates use.

use std::time::SystemTime;

use crate::Result;
use crate::authority::date;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The context-specific tag class.
const CONTEXT: u8 = 0x80;
const CONSTRUCTED: u8 = 0x20;

/// One value with its tag and length.
pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=0x7f => out.push(short as u8),
        long => {
            let bytes = long.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
            out.push(0x80 | (bytes.len() - first) as u8);
            out.extend_from_slice(&bytes[first..]);
        }
    }
    out.extend_from_slice(content);
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// A primitive value with a context-specific tag.
pub(crate) fn numbered(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(CONTEXT | number, content)
}

/// Constructed content with a context-specific tag.
pub(crate) fn wrapped(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(CONTEXT | CONSTRUCTED | number, content)
}

/// A non-negative integer, from big-endian bytes.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let significant = bytes.iter().position(|byte| *byte != 0).map_or(&[0][..], |first| &bytes[first..]);
    let sign: &[u8] = if significant[0] & 0x80 == 0 { &[] } else { &[0] };
    tagged(INTEGER, &[sign, significant].concat())
}

/// A bit string with these bits set and no trailing zero bits.
pub(crate) fn bits(set: &[u8]) -> Vec<u8> {
    let Some(last) = set.iter().max() else { return tagged(BIT_STRING, &[0]) };
    let mut content = vec![0; 2 + usize::from(last / 8)];
    content[0] = 7 - last % 8;
    for bit in set {
        content[1 + usize::from(bit / 8)] |= 0x80 >> (bit % 8);
    }
    tagged(BIT_STRING, &content)
}

/// Bytes as a string of bits.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

/// A date in a certificate: UTCTime with a two-digit year through 2049, GeneralizedTime after.
pub(crate) fn time(at: SystemTime) -> Result<Vec<u8>> {
    let at = date(at)?;
    let rest = format!(
        "{:02}{:02}{:02}{:02}{:02}Z",
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    Ok(match at.year() {
        year @ 1950..2050 => tagged(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes()),
        year => tagged(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn values() {
        assert_eq!(tagged(4, &[1, 2]), [4, 2, 1, 2]);
        assert_eq!(tagged(4, &[0; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tagged(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(bits(&[0, 2]), [3, 2, 5, 0b1010_0000]);
        assert_eq!(bits(&[8]), [3, 3, 7, 0, 0x80]);
    }

    #[test]
    fn dates() {
        let at = |seconds| time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        assert_eq!(at(0)[2..], *b"700101000000Z");
        assert_eq!(at(2_524_608_000)[2..], *b"20500101000000Z");
    }
}
