//! Floating-point numbers as `format` prints them: in the style of American English, with upstream's limits.
//!
//! Upstream's printer keeps the precision in 8 and 16 bits, and does not print anything for one above `MAX_NUMBER`.

/// The largest precision that upstream's printer reads.
const MAX_NUMBER: usize = 10_000_009;
/// The text that it prints instead of a number with a larger one.
const UNREADABLE: &str = "%!(NOVERB)";
/// No double has more decimals.
const MAX_DECIMALS: usize = 1074;
/// Decimals of scientific notation. Upstream passes a precision on as a width.
const SCIENTIFIC_DECIMALS: usize = 6;

/// `%.Nf`: groups of three digits, and decimals.
pub(super) fn fixed(number: f64, precision: usize) -> String {
    if precision > MAX_NUMBER {
        return UNREADABLE.to_owned();
    }
    if let Some(text) = special(number) {
        return text;
    }
    let min = precision & 0xff;
    let max = precision & 0xffff;
    let magnitude = number.abs();
    let digits = match max {
        0x8000.. => format!("{magnitude}"),
        _ => format!("{magnitude:.*}", max.min(MAX_DECIMALS)),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let significant = decimals.trim_end_matches('0');
    let mut out = sign(number).to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if significant.len().max(min) > 0 {
        out.push('.');
        out.push_str(significant);
        out.extend(std::iter::repeat_n('0', min.saturating_sub(significant.len())));
    }
    out
}

/// `%Ne`: `1.234500×10⁰³`, padded to a width.
pub(super) fn scientific(number: f64, width: usize) -> String {
    if width > MAX_NUMBER {
        return UNREADABLE.to_owned();
    }
    let text = special(number).unwrap_or_else(|| {
        let digits = format!("{:.*e}", SCIENTIFIC_DECIMALS, number.abs());
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        format!("{}{mantissa}×10{}", sign(number), superscript(exponent))
    });
    format!("{text:>width$}", width = width & 0xffff)
}

/// Numbers without digits.
fn special(number: f64) -> Option<String> {
    match number {
        _ if number.is_nan() => Some("NaN".to_owned()),
        f64::INFINITY => Some("∞".to_owned()),
        f64::NEG_INFINITY => Some("-∞".to_owned()),
        _ => None,
    }
}

/// Negative zero has no sign.
fn sign(number: f64) -> &'static str {
    if number < 0.0 { "-" } else { "" }
}

/// An exponent of at least two digits.
fn superscript(exponent: &str) -> String {
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let mut out = sign.to_owned();
    for digit in format!("{digits:0>2}").bytes() {
        out.push(
            ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][usize::from(digit.wrapping_sub(b'0')) % 10],
        );
    }
    out
}
