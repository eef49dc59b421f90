//! Costs: estimates before an expression is accepted, counts while it is evaluated.
//!
//! The numbers are upstream's, because they decide which rules a server accepts: `estimate` walks a checked expression
//! with the bounds that schemas give, `functions` has the rules of single functions. All arithmetic saturates.

mod estimate;
pub(crate) mod functions;
mod standard;

pub use estimate::{NoSizes, Sizes, estimate};

use crate::ast::Literal;
use crate::types::Type;

/// Cost of reading a variable or selecting a field.
pub const SELECT: u64 = 1;
/// Costs of creating an aggregate.
pub const LIST: u64 = 10;
pub const MAP: u64 = 30;
pub const STRUCT: u64 = 40;
/// Cost of traversing one character of a string.
pub const TRAVERSAL: f64 = 0.1;
/// Cost of one character of a regular expression, per unit of string traversal.
pub const REGEX: f64 = 0.25;

/// A range of sizes or of costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };
    pub const ZERO: Range = Range::exactly(0);
    pub const ONE: Range = Range::exactly(1);

    pub const fn new(min: u64, max: u64) -> Range {
        Range { min, max }
    }

    pub const fn exactly(value: u64) -> Range {
        Range { min: value, max: value }
    }

    #[must_use]
    pub fn plus(self, other: Range) -> Range {
        Range::new(self.min.saturating_add(other.min), self.max.saturating_add(other.max))
    }

    #[must_use]
    pub fn times(self, other: Range) -> Range {
        Range::new(self.min.saturating_mul(other.min), self.max.saturating_mul(other.max))
    }

    /// Multiplies by a factor and rounds up.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Range {
        Range::new(scale(self.min, factor), scale(self.max, factor))
    }

    #[must_use]
    pub fn union(self, other: Range) -> Range {
        Range::new(self.min.min(other.min), self.max.max(other.max))
    }
}

/// `value * factor`, rounded up, at most the largest number.
fn scale(value: u64, factor: f64) -> u64 {
    // A conversion from a float saturates.
    (value as f64 * factor).ceil() as u64
}

/// An argument of a call whose cost is estimated.
#[derive(Clone, Debug)]
pub struct Argument<'e> {
    pub ty: &'e Type,
    /// The size of the argument: of a string in characters, of bytes in bytes, of lists and maps in entries.
    pub size: Range,
    /// The size that the expression itself determines, if it does.
    pub computed: Option<Range>,
    /// The size of the items of a list.
    pub item_size: Range,
    /// The value, if the argument is a literal.
    pub literal: Option<&'e Literal>,
}

impl Argument<'_> {
    /// The type of the items of a list, or of the keys of a map.
    pub fn item_type(&self) -> Option<&Type> {
        self.ty.parameters().first()
    }
}

/// A call whose cost is estimated. The costs of its arguments are added by the caller.
#[derive(Clone, Debug)]
pub struct Call<'e> {
    pub overload: &'e str,
    pub target: Option<Argument<'e>>,
    pub arguments: Vec<Argument<'e>>,
}

/// The estimated cost of a call, and the size of its result where one is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub cost: Range,
    pub result: Option<Range>,
}

impl Estimate {
    pub const fn of(cost: Range) -> Estimate {
        Estimate { cost, result: None }
    }

    pub const fn sized(cost: Range, result: Range) -> Estimate {
        Estimate { cost, result: Some(result) }
    }
}

/// Cost at run time of traversing `size` characters, `factor` for each, rounded up.
pub fn traversal(size: u64, factor: f64) -> u64 {
    scale(size, factor)
}
