//! Quantities: `quantity`, `isQuantity`, arithmetic, comparison and conversion.
//!
//! Upstream holds a number as a 64-bit integer with a power of ten where it can, and only such numbers convert to
//! integers. `Amount` reproduces which ones can.

use std::any::Any;
use std::cmp::Ordering;

use corten_api::quantity::{Format, Quantity};

use super::arguments::{declare, int, opaque, text};
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("quantity", "string_to_quantity", "(string) kubernetes.Quantity", quantity),
    declare("isQuantity", "is_quantity_string", "(string) bool", is_quantity),
    declare("sign", "quantity_sign", "(kubernetes.Quantity) int", sign),
    declare(
        "isGreaterThan",
        "quantity_is_greater_than",
        "kubernetes.Quantity.(kubernetes.Quantity) bool",
        is_greater,
    ),
    declare("isLessThan", "quantity_is_less_than", "kubernetes.Quantity.(kubernetes.Quantity) bool", is_less),
    declare("compareTo", "quantity_compare_to", "kubernetes.Quantity.(kubernetes.Quantity) int", compare_to),
    declare("asApproximateFloat", "quantity_get_float", "kubernetes.Quantity.() double", as_float),
    declare("asInteger", "quantity_get_int", "kubernetes.Quantity.() int", as_integer),
    declare("isInteger", "quantity_is_integer", "kubernetes.Quantity.() bool", is_integer),
    declare("add", "quantity_add", "kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity", add),
    declare("add", "quantity_add_int", "kubernetes.Quantity.(int) kubernetes.Quantity", add),
    declare("sub", "quantity_sub", "kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity", sub),
    declare("sub", "quantity_sub_int", "kubernetes.Quantity.(int) kubernetes.Quantity", sub),
];

/// A number as upstream holds it.
#[derive(Debug, Clone, Copy)]
enum Amount {
    /// `value * 10^scale`
    Small { value: i64, scale: i32 },
    /// Any number with this many decimals.
    Wide { decimals: i32 },
}

#[derive(Debug, Clone, Copy)]
struct Number {
    quantity: Quantity,
    amount: Amount,
    /// The result of an addition or subtraction. Upstream's equality does not accept one on the right side.
    computed: bool,
}

impl Opaque for Number {
    fn type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Number = (other as &dyn Any).downcast_ref()?;
        (!other.computed).then(|| self.quantity == other.quantity)
    }
}

impl Amount {
    /// The amount of a number that upstream holds in 64 bits, if `small`.
    fn of(quantity: &Quantity, small: bool) -> Amount {
        let (mantissa, scale) = quantity.parts();
        match i64::try_from(mantissa) {
            Ok(value) if small => Amount::Small { value, scale },
            // The largest binary quantity replaces all larger ones, and has no decimals.
            Ok(value)
                if value.abs_diff(0) == i64::MAX.abs_diff(0) && quantity.format() == Format::BinarySi =>
            {
                Amount::Wide { decimals: 0 }
            }
            _ => Amount::Wide { decimals: 9 },
        }
    }

    fn decimals(self) -> i32 {
        match self {
            Amount::Small { scale, .. } => scale.saturating_neg(),
            Amount::Wide { decimals } => decimals,
        }
    }

    fn plus(self, other: Amount) -> Amount {
        self.small_sum(other).unwrap_or(Amount::Wide { decimals: self.decimals().max(other.decimals()) })
    }

    fn small_sum(self, other: Amount) -> Option<Amount> {
        let (Amount::Small { value: a, scale: a_scale }, Amount::Small { value: b, scale: b_scale }) =
            (self, other)
        else {
            return None;
        };
        match (a, b) {
            (_, 0) => return Some(self),
            (0, _) => return Some(other),
            _ => {}
        }
        let scale = a_scale.min(b_scale);
        let sum = shifted(a, a_scale - scale)?.checked_add(shifted(b, b_scale - scale)?)?;
        Some(Amount::Small { value: sum, scale })
    }

    fn negated(self) -> Amount {
        match self {
            Amount::Small { value, scale } => Amount::Small { value: value.wrapping_neg(), scale },
            wide => wide,
        }
    }

    fn integer(self) -> Option<i64> {
        match self {
            Amount::Small { value, scale } if scale >= 0 => shifted(value, scale),
            _ => None,
        }
    }
}

/// `value * 10^places`
fn shifted(value: i64, places: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10i64.checked_pow(u32::try_from(places).ok()?)?)
}

impl Number {
    fn parse(text: &str) -> Result<Number, String> {
        let (quantity, small) = Quantity::parse_sized(text).map_err(|error| error.to_string())?;
        Ok(Number { quantity, amount: Amount::of(&quantity, small), computed: false })
    }

    fn plus(mut self, other: Number) -> Number {
        self.quantity.add(other.quantity);
        Number { amount: self.amount.plus(other.amount), computed: true, ..self }
    }

    fn negated(self) -> Number {
        Number { quantity: self.quantity.negated(), amount: self.amount.negated(), ..self }
    }

    /// Upstream multiplies two rounded numbers, which gives other results than rounding once.
    fn float(&self) -> f64 {
        let (mantissa, scale) = self.quantity.parts();
        let (base, exponent) = match self.amount {
            Amount::Small { value, scale } => (value as f64, scale),
            Amount::Wide { decimals } => {
                let unscaled = format!("{mantissa}e{}", i64::from(scale) + i64::from(decimals));
                (unscaled.parse().unwrap_or(f64::NAN), decimals.saturating_neg())
            }
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }
}

/// `10^n` as Go computes it: from two exact or nearest powers.
fn power_of_ten(n: i32) -> f64 {
    let power = |n: i32| format!("1e{n}").parse::<f64>().unwrap_or(f64::NAN);
    match n {
        0..=308 => power(n / 32 * 32) * power(n % 32),
        -323..0 => power(-(-n / 32 * 32)) / power(-n % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

fn number(arguments: &[Value<'_>], index: usize) -> Result<Number> {
    opaque(arguments, index).copied()
}

/// The second operand of an addition: a quantity or an integer.
fn operand(arguments: &[Value<'_>]) -> Result<Number> {
    let Ok(value) = int(arguments, 1) else { return number(arguments, 1) };
    let quantity = Quantity::new(value, Format::DecimalExponent);
    Ok(Number { quantity, amount: Amount::Small { value, scale: 0 }, computed: false })
}

fn quantity<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(Number::parse(text(arguments, 0)?)?))
}

fn is_quantity<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Number::parse(text(arguments, 0)?).is_ok().into())
}

fn sign<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(number(arguments, 0)?.quantity.cmp(&Quantity::ZERO) as i64))
}

fn order(arguments: &[Value<'_>]) -> Result<Ordering> {
    Ok(number(arguments, 0)?.quantity.cmp(&number(arguments, 1)?.quantity))
}

fn is_greater<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(order(arguments)?.is_gt().into())
}

fn is_less<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(order(arguments)?.is_lt().into())
}

fn compare_to<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(order(arguments)? as i64))
}

fn as_float<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Double(number(arguments, 0)?.float()))
}

fn as_integer<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let integer = number(arguments, 0)?.amount.integer();
    integer.map(Value::Int).ok_or(Error::new("cannot convert value to integer"))
}

fn is_integer<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(number(arguments, 0)?.amount.integer().is_some().into())
}

fn add<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(number(arguments, 0)?.plus(operand(arguments)?)))
}

fn sub<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::opaque(number(arguments, 0)?.plus(operand(arguments)?.negated())))
}
