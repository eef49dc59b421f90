//! Finds a field by its name: the first guess is nearly always right, so that a lookup costs one comparison.

use super::Field;
use crate::value::Str;

/// Positions of names, at indexes that depend on their length and a few of their bytes.
#[derive(Debug)]
pub(super) struct Names {
    /// One more than a position; zero where there is none. A power of two long, and never full.
    places: Box<[u32]>,
}

fn place_of(name: &[u8]) -> usize {
    let byte = |at: usize| name.get(at).copied().unwrap_or_default() as usize;
    let (first, middle, last) = (byte(0), byte(name.len() / 2), byte(name.len().wrapping_sub(1)));
    name.len() * 67 + first * 31 + middle * 11 + last * 5 + byte(3) * 3
}

impl Names {
    pub(super) fn new(fields: &[Field]) -> Names {
        let mut places = vec![0u32; (fields.len() * 3).next_power_of_two().max(4)].into_boxed_slice();
        for (position, field) in (1u32..).zip(fields) {
            let mut at = place_of(field.name.as_bytes()) & (places.len() - 1);
            while places[at] != 0 {
                at = (at + 1) & (places.len() - 1);
            }
            places[at] = position;
        }
        Names { places }
    }

    /// The position of a field.
    pub(super) fn find(&self, fields: &[Field], name: &str) -> Option<usize> {
        let mut at = place_of(name.as_bytes()) & (self.places.len() - 1);
        loop {
            let position = (*self.places.get(at)? as usize).checked_sub(1)?;
            let known: &Str = &fields.get(position)?.name;
            if known.len() == name.len() && known.as_str() == name {
                return Some(position);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{lookup, struct_names};

    #[test]
    fn every_field_of_every_type_is_found_and_nothing_else() {
        for (package, name) in struct_names() {
            let schema = lookup(package, name).unwrap();
            for field in &schema.fields {
                let found = schema.field(&field.name).map(|f| &f.name);
                assert_eq!(found, Some(&field.name), "{package} {name}");
                assert!(schema.field(&format!("{}x", field.name)).is_none());
            }
            assert!(schema.field("").is_none() && schema.field("noSuchField").is_none());
        }
    }
}
