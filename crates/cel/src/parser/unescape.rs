//! Texts of string and bytes literals.

/// The contents of a literal with its quotes and prefix `r`. Errors are texts of messages.
pub(super) fn unescape(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normalized: String;
    let literal = if literal.contains('\r') {
        normalized = literal.replace("\r\n", "\n").replace('\r', "\n");
        &normalized
    } else {
        literal
    };
    let raw = literal.starts_with(['r', 'R']);
    let quoted = if raw { &literal[1..] } else { literal };
    let marks =
        if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = quoted.get(marks..quoted.len().saturating_sub(marks)).ok_or("unable to unescape string")?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut result = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        if first != '\\' {
            let mut buffer = [0; 4];
            result.extend_from_slice(first.encode_utf8(&mut buffer).as_bytes());
            rest = &rest[first.len_utf8()..];
            continue;
        }
        rest = &rest[escape(rest, bytes, &mut result)?..];
    }
    Ok(result)
}

/// Appends the character of the escape at the start of a text; returns the escape's length.
fn escape(text: &str, bytes: bool, result: &mut Vec<u8>) -> Result<usize, &'static str> {
    const INVALID: &str = "unable to unescape string";
    let kind = *text.as_bytes().get(1).ok_or("unable to unescape string, found '\\' as last character")?;
    let simple = match kind {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'`' | b'?' => kind,
        _ => 0,
    };
    if simple != 0 {
        result.push(simple);
        return Ok(2);
    }
    let (digits, radix, start) = match kind {
        b'x' | b'X' => (2, 16, 2),
        b'u' if !bytes => (4, 16, 2),
        b'U' if !bytes => (8, 16, 2),
        b'0'..=b'3' => (3, 8, 1),
        _ => return Err(INVALID),
    };
    let value = text.get(start..start + digits).and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let value =
        value.ok_or(if radix == 8 { "unable to unescape octal sequence in string" } else { INVALID })?;
    if bytes {
        result.push(value as u8);
    } else {
        let c = char::from_u32(value).ok_or("invalid unicode code point")?;
        result.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(start + digits)
}
