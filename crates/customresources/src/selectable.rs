//! Selectable fields of custom resources: the text of each field that field selectors may name.

use corten_api::{Str, Value, go};

use crate::jsonpath::{JsonPath, MissingKeys};

/// The selectable fields of one version.
#[derive(Debug, Clone, Default)]
pub struct Selectable {
    fields: Vec<(Str, Option<JsonPath>)>,
}

impl Selectable {
    /// The selectable fields of a version of a definition.
    pub fn of_version(version: &Value) -> Selectable {
        let fields = version.items_at(&["selectableFields"]).iter();
        Selectable::of_paths(fields.map(|field| field.str_at(&["jsonPath"]).unwrap_or_default()))
    }

    /// The fields at some paths, as definitions spell them: `.spec.color`.
    pub fn of_paths<'p>(paths: impl IntoIterator<Item = &'p str>) -> Selectable {
        let field = |path: &str| {
            let name = Str::new(path.strip_prefix('.').unwrap_or(path));
            (name, JsonPath::parse(&format!("{{{path}}}")).ok())
        };
        Selectable { fields: paths.into_iter().map(field).collect() }
    }

    /// The names of the fields, as selectors spell them: `spec.color`.
    pub fn names(&self) -> impl Iterator<Item = &Str> {
        self.fields.iter().map(|(name, _)| name)
    }

    /// The names and values of the fields of an object. An absent field is empty.
    pub fn values<'s>(&'s self, object: &'s Value) -> impl Iterator<Item = (&'s Str, String)> {
        self.fields.iter().map(|(name, path)| (name, text(path.as_ref(), object)))
    }
}

fn text(path: Option<&JsonPath>, object: &Value) -> String {
    let found = path.and_then(|path| path.find(object, MissingKeys::Allowed).ok()).unwrap_or_default();
    match found.first().and_then(|results| results.first()) {
        Some(found) if !found.0.is_null() => go::plain(&found.0),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[track_caller]
    fn check(path: &str, name: &str, expected: &str) {
        let object = value!({"spec": {"color": "blue", "size": 3, "on": true, "none": null}});
        let version = value!({"selectableFields": [{"jsonPath": path}]});
        let selectable = Selectable::of_version(&version);
        let values: Vec<(String, String)> =
            selectable.values(&object).map(|(name, value)| (name.to_string(), value)).collect();
        assert_eq!(values, [(name.to_owned(), expected.to_owned())]);
    }

    #[test]
    fn values_are_texts() {
        check(".spec.color", "spec.color", "blue");
        check(".spec.size", "spec.size", "3");
        check(".spec.on", "spec.on", "true");
        check(".spec.none", "spec.none", "");
        check(".spec.absent", "spec.absent", "");
    }
}
