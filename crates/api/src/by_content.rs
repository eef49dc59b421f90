//! Values as keys of hash tables: a lookup costs the size of the value, not that of all the others.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::value::Value;

/// A value that is compared by content: equal exactly where `==` says so.
#[derive(Debug, Clone, Copy)]
pub struct ByContent<'v>(pub &'v Value);

impl PartialEq for ByContent<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// JSON has no number that differs from itself.
impl Eq for ByContent<'_> {}

impl Hash for ByContent<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(bool) => bool.hash(state),
            Value::Int(int) => int.hash(state),
            // Zero is equal to its negative.
            Value::Float(float) => (if *float == 0.0 { 0.0 } else { *float }).to_bits().hash(state),
            Value::String(text) | Value::Raw(text) => text.as_str().hash(state),
            Value::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| ByContent(item).hash(state));
            }
            Value::Object(map) => {
                map.len().hash(state);
                for (key, value) in map.iter() {
                    key.as_str().hash(state);
                    ByContent(value).hash(state);
                }
            }
        }
    }
}

/// The values of a list as a set for lookups.
pub fn set_of(values: &[Value]) -> HashSet<ByContent<'_>> {
    values.iter().map(ByContent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn equal_values_are_found() {
        let values = [value!({"a": [1, null], "b": "x"}), value!(0.0), value!("x"), value!(true)];
        let set = set_of(&values);
        assert!(values.iter().all(|value| set.contains(&ByContent(value))));
        assert!(set.contains(&ByContent(&Value::Float(-0.0))));
        for other in [value!(0), value!({"a": [1], "b": "x"}), value!("y"), value!(null)] {
            assert!(!set.contains(&ByContent(&other)), "{other:?}");
        }
    }
}
