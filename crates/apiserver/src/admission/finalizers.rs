//! The finalizers that plugins put on new objects. Their controllers remove them once the object is no longer in use.

use corten_api::{Value, meta};

/// Adds a finalizer unless the object has it.
pub(super) fn add(object: &mut Value, finalizer: &str) {
    if !meta::finalizers(object).any(|present| present == finalizer) {
        meta::of(object).entry("finalizers").make_array().push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_finalizer_is_added_once() {
        let mut object = value!({"metadata": {"finalizers": ["a/b"]}});
        add(&mut object, "x/y");
        add(&mut object, "x/y");
        assert_eq!(object, value!({"metadata": {"finalizers": ["a/b", "x/y"]}}));
    }
}
