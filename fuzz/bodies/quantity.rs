//! Quantities: the canonical spelling is its own.

use corten_api::quantity;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(canonical) = quantity::canonical(text) else { return };
    assert!(quantity::canonical(&canonical).is_ok(), "{text:?} became {canonical:?}");
}
