//! Quantities: `100m`, `1.5Gi`, `1e3`.
//!
//! A quantity is a decimal number and its notation. It is never finer than a
//! billionth: parsing rounds up, so that a small request is not zero. Formatting follows upstream
//! exactly, quirks included (a text that is canonical enough is kept as it was written).
//!
//! Numbers hold 38 digits; upstream's are unbounded. Beyond that, sums lose their lowest digits.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use crate::value::Str;

/// The notation of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// The error of a text that is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// `mantissa * 10^scale`. Equality and order are those of the number, whatever its notation.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
}

/// Upstream's canonical form of a quantity.
pub fn canonical(text: &str) -> Result<Str, String> {
    let text = text.trim();
    let parsed = parse::parse(text).map_err(|error| error.to_string())?;
    Ok(if parsed.canonical { Str::new(text) } else { parsed.quantity.to_str() })
}

impl Quantity {
    pub const ZERO: Quantity = Quantity::new(0, Format::DecimalSi);

    pub const fn new(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, 0, format)
    }

    pub const fn from_milli(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, -3, format)
    }

    /// `value * 10^scale`.
    pub const fn scaled(value: i64, scale: i32, format: Format) -> Quantity {
        Quantity { mantissa: value as i128, scale, format }
    }

    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        parse::parse(text.trim()).map(|parsed| parsed.quantity)
    }

    /// Parses a text without surrounding spaces. The flag is true if upstream holds the number as a 64-bit integer
    /// and a power of ten (`parts`); it converts only such numbers to integers.
    pub fn parse_sized(text: &str) -> Result<(Quantity, bool), QuantityError> {
        parse::parse(text).map(|parsed| (parsed.quantity, parsed.small))
    }

    /// Mantissa and exponent of ten.
    pub fn parts(&self) -> (i128, i32) {
        (self.mantissa, self.scale)
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn with_format(self, format: Format) -> Quantity {
        Quantity { format, ..self }
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// The whole number at or next to this one, away from zero; the nearest bound if it does not fit.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Thousandths, rounded like `value`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Multiples of `10^scale`, rounded like `value`.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let wide = match rescale(self.mantissa, self.scale, scale) {
            Some((rescaled, _)) => rescaled,
            None if self.mantissa < 0 => i128::MIN,
            None => i128::MAX,
        };
        i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
    }

    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.scale)
    }

    /// Adds; a zero takes the notation of the other quantity.
    pub fn add(&mut self, other: Quantity) {
        if self.is_zero() {
            self.format = other.format;
        }
        if other.is_zero() {
            return;
        }
        let (a, b, scale) = align(self.mantissa, self.scale, other.mantissa, other.scale);
        self.mantissa = a.saturating_add(b);
        self.scale = scale;
    }

    pub fn sub(&mut self, other: Quantity) {
        self.add(other.negated());
    }

    pub fn negated(self) -> Quantity {
        Quantity { mantissa: self.mantissa.saturating_neg(), ..self }
    }

    pub fn times(self, factor: i64) -> Quantity {
        Quantity { mantissa: self.mantissa.saturating_mul(factor.into()), ..self }
    }

    /// The canonical form.
    pub fn to_str(&self) -> Str {
        self.to_string().into()
    }

    /// The number for binary notation, if that is exact.
    fn whole_binary(&self) -> Option<i128> {
        let (whole, exact) = rescale(self.mantissa, self.scale, 0)?;
        (exact && whole.abs() >= 1024).then_some(whole)
    }

    /// Mantissa, zeros to append to it, and an exponent that is a multiple of three.
    fn by_thousands(&self) -> (i128, &'static str, i32) {
        let (mut mantissa, mut exponent) = (self.mantissa, self.scale);
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            exponent = exponent.saturating_add(1);
        }
        match exponent.rem_euclid(3) {
            0 => (mantissa, "", exponent),
            1 => (mantissa, "0", exponent - 1),
            _ => (mantissa, "00", exponent - 2),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let Some(mut whole) = self.whole_binary()
        {
            let mut exponent = 0;
            while whole % 1024 == 0 {
                whole /= 1024;
                exponent += 10;
            }
            return write!(f, "{whole}{}", parse::binary_suffix(exponent));
        }
        let (mantissa, zeros, exponent) = self.by_thousands();
        write!(f, "{mantissa}{zeros}")?;
        match (self.format, exponent) {
            (_, 0) => Ok(()),
            (Format::DecimalExponent, exponent) => write!(f, "e{exponent}"),
            (_, exponent) => f.write_str(parse::decimal_suffix(exponent)),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs != Ordering::Equal || self.mantissa == 0 {
            return signs;
        }
        if self.scale < other.scale {
            return other.cmp(self).reverse();
        }
        match rescale(self.mantissa, self.scale, other.scale) {
            Some((mine, _)) => mine.cmp(&other.mantissa),
            // Too large to be written at the other's scale: larger in magnitude than it.
            None if self.mantissa < 0 => Ordering::Less,
            None => Ordering::Greater,
        }
    }
}

/// `mantissa * 10^from` in multiples of `10^to`, rounded away from zero, and whether that is exact;
/// nothing if it does not fit.
fn rescale(mantissa: i128, from: i32, to: i32) -> Option<(i128, bool)> {
    let places = i64::from(from) - i64::from(to);
    let factor = u32::try_from(places.unsigned_abs()).ok().and_then(|places| 10i128.checked_pow(places));
    if mantissa == 0 || places == 0 {
        return Some((mantissa, true));
    }
    if places > 0 {
        return Some((mantissa.checked_mul(factor?)?, true));
    }
    let Some(factor) = factor else {
        return Some((mantissa.signum(), false));
    };
    let (quotient, rest) = (mantissa / factor, mantissa % factor);
    Some((quotient + rest.signum(), rest == 0))
}

/// Both numbers at one scale: the finer one, or the finest at which the coarser number fits. The other number is then
/// rounded away from zero.
fn align(a: i128, a_scale: i32, b: i128, b_scale: i32) -> (i128, i128, i32) {
    if a_scale < b_scale {
        let (b, a, scale) = align(b, b_scale, a, a_scale);
        return (a, b, scale);
    }
    let (mut a, mut scale) = (a, a_scale);
    while scale > b_scale
        && let Some(finer) = a.checked_mul(10)
    {
        (a, scale) = (finer, scale - 1);
    }
    (a, rescale(b, b_scale, scale).map_or(b.signum(), |(b, _)| b), scale)
}
