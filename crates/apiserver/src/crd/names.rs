//! An index of the names and versions of all definitions, updated one definition at a time.
//!
//! Pure. It answers which definitions a change concerns, so that a change costs the size of its own definition: the
//! names of a group are counted as definitions come and go, and only definitions that wait for names are evaluated again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use corten_api::{Str, Value};

use super::conditions::{Accepted, Taken, has_its_names};

/// The names of all definitions.
#[derive(Default)]
pub(super) struct NameIndex {
    definitions: HashMap<Str, Indexed>,
    groups: HashMap<Str, Group>,
}

/// One definition in the index.
struct Indexed {
    group: Str,
    accepted: Accepted,
    /// The served versions.
    versions: Vec<Str>,
}

/// The definitions of one group.
#[derive(Default)]
struct Group {
    taken: Taken,
    /// The definitions that do not have all the names they want.
    waiting: BTreeSet<Str>,
    /// The served versions, and how many definitions have each.
    versions: BTreeMap<Str, usize>,
    definitions: usize,
}

impl NameIndex {
    /// Sets the state of a definition and its served versions.
    pub(super) fn set(&mut self, name: &str, definition: &Value, versions: Vec<Str>) {
        self.remove(name);
        let group_name = Str::from(definition.str_at(&["spec", "group"]).unwrap_or_default());
        let group = self.groups.entry(group_name.clone()).or_default();
        group.definitions += 1;
        if !has_its_names(definition) {
            group.waiting.insert(name.into());
        }
        for version in &versions {
            *group.versions.entry(version.clone()).or_default() += 1;
        }
        let accepted = Accepted::of(definition);
        group.taken.add(&accepted);
        self.definitions.insert(name.into(), Indexed { group: group_name, accepted, versions });
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(old) = self.definitions.remove(name) else { return };
        let Some(group) = self.groups.get_mut(&old.group) else { return };
        group.definitions -= 1;
        group.waiting.remove(name);
        group.taken.remove(&old.accepted);
        for version in &old.versions {
            if let Some(count) = group.versions.get_mut(version) {
                *count -= 1;
            }
        }
        group.versions.retain(|_, count| *count > 0);
        if group.definitions == 0 {
            self.groups.remove(&old.group);
        }
    }

    /// The group of a definition.
    pub(super) fn group_of(&self, name: &str) -> Option<Str> {
        self.definitions.get(name).map(|indexed| indexed.group.clone())
    }

    /// The accepted names of a group.
    pub(super) fn taken(&self, group: &str) -> Option<&Taken> {
        self.groups.get(group).map(|group| &group.taken)
    }

    /// The definitions of a group that do not have all the names they want.
    pub(super) fn waiting(&self, group: &str) -> Vec<Str> {
        self.groups.get(group).map(|group| group.waiting.iter().cloned().collect()).unwrap_or_default()
    }

    /// The served versions of a group.
    pub(super) fn versions(&self, group: &str) -> impl Iterator<Item = &Str> {
        self.groups.get(group).into_iter().flat_map(|group| group.versions.keys())
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn definition(group: &str, kind: &str, accepted: Option<&str>) -> Value {
        let names = |kind: &str| value!({"plural": (kind.to_lowercase()), "kind": kind});
        let mut definition = value!({"spec": {"group": group, "names": (names(kind))}});
        if let Some(accepted) = accepted {
            definition.set(&["status", "acceptedNames"], names(accepted));
            let condition = value!({"type": "NamesAccepted", "status": "True"});
            definition.set(&["status", "conditions"], vec![condition]);
        }
        definition
    }

    fn versions(index: &NameIndex, group: &str) -> Vec<String> {
        index.versions(group).map(Str::to_string).collect()
    }

    #[test]
    fn a_group_knows_which_definitions_wait_for_names() {
        let mut index = NameIndex::default();
        index.set("a.g", &definition("g", "A", Some("A")), vec!["v1".into()]);
        index.set("b.g", &definition("g", "B", None), Vec::new());
        index.set("c.g", &definition("g", "C", Some("B")), vec!["v1".into(), "v2".into()]);
        index.set("b.other", &definition("other", "B", None), Vec::new());
        assert_eq!(index.waiting("g"), ["b.g", "c.g"]);
        assert_eq!(versions(&index, "g"), ["v1", "v2"]);
        index.set("b.g", &definition("g", "B", Some("B")), vec!["v2".into()]);
        assert_eq!(index.waiting("g"), ["c.g"]);
        index.remove("c.g");
        assert_eq!(index.waiting("g"), [""; 0]);
        assert_eq!(versions(&index, "g"), ["v1", "v2"]);
        index.remove("b.g");
        assert_eq!(versions(&index, "g"), ["v1"]);
    }

    #[test]
    fn a_group_without_definitions_is_gone() {
        let mut index = NameIndex::default();
        index.set("a.g", &definition("g", "A", Some("A")), vec!["v1".into()]);
        index.set("a.g", &definition("g", "A", Some("A")), vec!["v1".into()]);
        assert_eq!(index.group_of("a.g").as_deref(), Some("g"));
        index.remove("a.g");
        index.remove("a.g");
        assert!(index.groups.is_empty() && index.group_of("a.g").is_none());
    }
}
