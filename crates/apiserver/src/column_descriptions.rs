//! The descriptions of table columns: those of the fields that they show, as `explain` prints them, or their own.
//!
//! A text is looked up when its column is first shown and kept from then on. There are a few hundred columns, and
//! looking one up decompresses the descriptions of a whole group.

use std::collections::HashMap;
use std::sync::LazyLock;

use corten_api::{Str, openapi};
use corten_descriptions::GroupDescriptions;
use corten_registry::Column;
use parking_lot::Mutex;

type Texts = HashMap<(&'static str, &'static str), Option<Str>>;

static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// The descriptions of the columns of one table, in their order.
pub(crate) fn of(columns: &[Column]) -> Vec<Str> {
    let mut texts = TEXTS.lock();
    let mut loaded: Option<(String, GroupDescriptions)> = None;
    let describe = |column: &Column| {
        let found = column
            .field
            .and_then(|field| texts.entry(field).or_insert_with(|| look_up(field, &mut loaded)).clone());
        found.unwrap_or_else(|| column.description.into())
    };
    columns.iter().map(describe).collect()
}

/// The description of a field of all objects' metadata.
pub(crate) fn of_metadata(field: &'static str) -> Option<Str> {
    let field = ("meta/v1.ObjectMeta", field);
    TEXTS.lock().entry(field).or_insert_with(|| look_up(field, &mut None)).clone()
}

/// The description of a field. `loaded` are the descriptions of the group that was last needed.
fn look_up(
    (type_name, field): (&str, &str),
    loaded: &mut Option<(String, GroupDescriptions)>,
) -> Option<Str> {
    let (package, name) = type_name.rsplit_once('.')?;
    let full = openapi::type_name(package, name);
    let group = corten_descriptions::group_of(&full)?;
    if loaded.as_ref().is_none_or(|(known, _)| known != group) {
        *loaded = Some((group.to_owned(), corten_descriptions::of_group(group)));
    }
    loaded.as_ref().and_then(|(_, descriptions)| descriptions.of_field(&full, field)).map(Str::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_column_is_described() {
        for resource in corten_api::resources::all() {
            let Some(rules) = corten_registry::rules(&resource.group, &resource.name) else { continue };
            for (column, text) in rules.columns.iter().zip(of(rules.columns)) {
                let own = text == column.description;
                assert_eq!(own, column.field.is_none(), "{} of {}: {text}", column.name, resource.name);
            }
        }
    }
}
