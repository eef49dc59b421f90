//! Conforming is idempotent, whatever came in.

use corten_api::conform::{Extent, conform};
use corten_api::{Value, schema};

/// Conforms a value, and checks that doing so twice changes nothing. False if it does not conform.
pub(crate) fn conformed_twice(value: &mut Value, package: &str, name: &str) -> bool {
    let schema = schema::lookup(package, name).expect("the table has the type");
    if conform(value, &schema, Extent::Whole, &mut Vec::new()).is_err() {
        return false;
    }
    let once = value.clone();
    conform(value, &schema, Extent::Whole, &mut Vec::new()).expect("what conforms conforms again");
    assert_eq!(*value, once);
    true
}
