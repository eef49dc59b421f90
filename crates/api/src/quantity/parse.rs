//! Parses quantities, with upstream's rule for texts that are canonical.

use super::{Format, Quantity, QuantityError};

/// The finest quantity is a billionth.
const NANO: i32 = -9;
/// This many decimal digits fit an `i64` for sure.
const MAX_DIGITS: i32 = 18;
/// This many decimal digits fit an `i128` for sure.
const MAX_WIDE_DIGITS: usize = 38;

struct Parts<'t> {
    negative: bool,
    /// Without leading zeros.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
    has_digits: bool,
}

/// Base, exponent and notation of a suffix.
struct Suffix {
    binary: bool,
    exponent: i32,
    format: Format,
}

/// A quantity and properties of its text.
pub(super) struct Parsed {
    pub(super) quantity: Quantity,
    /// The text is the canonical form.
    pub(super) canonical: bool,
    /// Upstream holds the number in 64 bits.
    pub(super) small: bool,
}

/// Parses a quantity.
pub(super) fn parse(text: &str) -> Result<Parsed, QuantityError> {
    let parts = split(text)?;
    let suffix = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    match parse_small(&parts, &suffix) {
        Some((quantity, canonical)) => Ok(Parsed { quantity, canonical, small: true }),
        // Upstream requires digits only where the number does not fit 64 bits, or seems not to.
        None if !parts.has_digits => Err(QuantityError::Numeric),
        None => Ok(Parsed { quantity: parse_large(&parts, &suffix), canonical: false, small: false }),
    }
}

/// Numbers that fit 64 bits, which nearly all do.
fn parse_small(parts: &Parts<'_>, suffix: &Suffix) -> Option<(Quantity, bool)> {
    let digits = i32::try_from(parts.whole.len() + parts.fraction.len()).ok()?;
    let (multiplier, mut scale) = if suffix.binary {
        // A binary order of magnitude is three decimal digits; upstream estimates in floating point.
        let spare = 15 - digits - suffix.exponent * 3 / 10 - 1;
        if !parts.fraction.is_empty() || spare < 0 {
            return None;
        }
        (1i64 << suffix.exponent, 0)
    } else if digits > MAX_DIGITS {
        return None;
    } else {
        (1, suffix.exponent)
    };
    scale = scale.checked_sub(i32::try_from(parts.fraction.len()).ok()?)?;
    if scale < NANO {
        return None;
    }
    let shifted = parts
        .whole
        .bytes()
        .chain(parts.fraction.bytes())
        .fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    let magnitude = shifted.checked_mul(multiplier)?;
    let canonical = if suffix.binary {
        shifted & 7 != 0
    } else {
        let starts_with_zero = parts.whole.starts_with('0');
        scale % 3 == 0 && !(digits >= 3 && shifted % 1000 == 0) && !starts_with_zero
    };
    let value = if parts.negative { -magnitude } else { magnitude };
    Some((Quantity::scaled(value, scale, suffix.format), canonical))
}

/// Any number, digit by digit.
fn parse_large(parts: &Parts<'_>, suffix: &Suffix) -> Quantity {
    // Least significant first.
    let mut digits: Vec<u8> =
        parts.whole.bytes().chain(parts.fraction.bytes()).rev().map(|digit| digit - b'0').collect();
    let mut scale = -i64::try_from(digits.len() - parts.whole.len()).unwrap_or(i64::MAX);
    if suffix.binary {
        (0..suffix.exponent).for_each(|_| double(&mut digits));
    } else {
        scale += i64::from(suffix.exponent);
    }
    if scale < NANO.into() {
        round_up(&mut digits, usize::try_from(i64::from(NANO) - scale).unwrap_or(usize::MAX));
        scale = NANO.into();
    }
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    scale += i64::try_from(zeros).unwrap_or(0);
    let surplus = digits.len().saturating_sub(MAX_WIDE_DIGITS);
    round_up(&mut digits, surplus);
    scale += i64::try_from(surplus).unwrap_or(0);
    let mantissa = digits.iter().rev().fold(0i128, |number, digit| number * 10 + i128::from(*digit));
    let scale = i32::try_from(scale).unwrap_or(i32::MAX);
    finish(Quantity { mantissa, scale, format: suffix.format }, parts.negative)
}

/// The bounds of binary quantities, and the sign.
fn finish(mut quantity: Quantity, negative: bool) -> Quantity {
    if quantity.format == Format::BinarySi {
        let max = Quantity::new(i64::MAX, Format::BinarySi);
        if quantity > max {
            quantity = max;
        }
        if !quantity.is_zero() && quantity < Quantity::new(1, Format::BinarySi) {
            quantity.format = Format::DecimalSi;
        }
    }
    if negative { quantity.negated() } else { quantity }
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut() {
        let sum = *digit * 2 + carry;
        *digit = sum % 10;
        carry = sum / 10;
    }
    if carry > 0 {
        digits.push(carry);
    }
}

/// Drops the lowest `places` digits, rounding up if one was not zero.
fn round_up(digits: &mut Vec<u8>, places: usize) {
    let dropped: Vec<u8> = digits.drain(..places.min(digits.len())).collect();
    if dropped.iter().all(|digit| *digit == 0) {
        return;
    }
    for digit in digits.iter_mut() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.push(1);
}

/// Splits a text; only the characters are checked here, not the suffix.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let significant = unsigned.trim_start_matches('0');
    let (whole, rest) = split_digits(significant);
    let has_whole = significant.len() < unsigned.len() || !whole.is_empty();
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix, has_digits: has_whole || !fraction.is_empty() })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

fn interpret(suffix: &str) -> Option<Suffix> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some(Suffix { binary: false, exponent: *exponent, format: Format::DecimalSi });
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some(Suffix { binary: true, exponent: *exponent, format: Format::BinarySi });
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Upstream keeps the lowest 32 bits.
    Some(Suffix { binary: false, exponent: exponent as i32, format: Format::DecimalExponent })
}

/// Magnitudes without a name have no suffix, as upstream.
pub(super) fn decimal_suffix(exponent: i32) -> &'static str {
    DECIMAL.iter().find(|(_, known)| *known == exponent).map_or("", |(suffix, _)| suffix)
}

pub(super) fn binary_suffix(exponent: i32) -> &'static str {
    BINARY.iter().find(|(_, known)| *known == exponent).map_or("", |(suffix, _)| suffix)
}
