//! Amounts of resources.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::NOT_NEGATIVE;

/// An amount that is zero or more.
pub(crate) fn validate_non_negative_quantity(amount: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
    if parsed.is_some_and(|parsed| parsed.is_negative()) {
        errors.invalid(*at, amount, NOT_NEGATIVE);
    }
}
