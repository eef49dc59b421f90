//! Kubernetes' two notions of time on the wire: `Time` with seconds and `MicroTime` with microseconds,
//! both RFC 3339 in UTC.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use crate::value::Str;

/// A `Time`: `2006-01-02T15:04:05Z`.
pub fn format(at: Timestamp) -> Str {
    print(at, 0)
}

/// A `MicroTime`: `2006-01-02T15:04:05.000000Z`.
pub fn format_micro(at: Timestamp) -> Str {
    print(at, 6)
}

fn print(at: Timestamp, decimals: u8) -> Str {
    let mut text = String::with_capacity(32);
    let printer = DateTimePrinter::new().precision(Some(decimals));
    // Printing into a String cannot fail.
    let _ = printer.print_timestamp(&at, &mut text);
    Str::from(text)
}

/// Reads either form, with any offset; the error is worded as Go's.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let strict = text.len() >= 20 && text.as_bytes()[10] == b'T';
    match text.parse::<Timestamp>() {
        Ok(at) if strict => Ok(at),
        _ => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_and_any_offset() {
        let at = parse("2024-02-29T12:00:00.5+02:00").unwrap();
        assert_eq!(format(at), "2024-02-29T10:00:00Z");
        assert_eq!(format_micro(at), "2024-02-29T10:00:00.500000Z");
        assert!(parse("yesterday").unwrap_err().contains("cannot parse \"yesterday\""));
        assert!(parse("2024-02-29").is_err());
    }
}
