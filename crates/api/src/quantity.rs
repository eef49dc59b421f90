//! Quantities: `100m`, `1.5Gi`, `1e3`.

use crate::value::Str;

/// The one spelling upstream gives a quantity.
pub fn canonical(text: &str) -> Result<Str, String> {
    Ok(Str::new(text.trim()))
}
