//! Volumes, claims and classes as far as they decide where pods can go.
//!
//! What was decided about volumes counts at once, whether or not the server knows yet, until it refuses.

mod claim;
mod volume;

use std::collections::HashMap;

use corten_api::{Str, Value};
use corten_client::Key;

pub(crate) use claim::{Claim, SELECTED_NODE};
pub(crate) use volume::{Attachable, Volume};

/// The kinds that storage is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Volume,
    Claim,
    Class,
    CsiNode,
}

/// A class of storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Class {
    /// Who makes volumes of it; empty if nobody does.
    pub(crate) provisioner: Str,
    /// Whether a claim waits until its pod has a node.
    pub(crate) waits: bool,
    /// Labels of the nodes for which volumes can be made: one of the terms, each with all of its keys.
    topologies: Vec<Vec<(Str, Vec<Str>)>>,
}

impl Class {
    fn of(class: &Value) -> Class {
        let text = |item: &Value, key: &str| Str::new(item.str_at(&[key]).unwrap_or_default());
        let values = |item: &Value| {
            item.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::new).collect()
        };
        let term = |term: &Value| {
            let expressions = term.items_at(&["matchLabelExpressions"]).iter();
            expressions.map(|item| (text(item, "key"), values(item))).collect()
        };
        let provisioner = text(class, "provisioner");
        let makes = provisioner != "kubernetes.io/no-provisioner";
        Class {
            provisioner: if makes { provisioner } else { Str::default() },
            waits: class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer"),
            topologies: class.items_at(&["allowedTopologies"]).iter().map(term).collect(),
        }
    }

    /// Whether volumes can be made for a node.
    pub(crate) fn serves(&self, node: &crate::node::Node) -> bool {
        let has = |(key, values): &(Str, Vec<Str>)| {
            node.label(key).is_some_and(|label| values.iter().any(|value| value == label))
        };
        self.topologies.is_empty() || self.topologies.iter().any(|term| term.iter().all(has))
    }
}

#[derive(Default)]
pub(crate) struct Storage {
    volumes: HashMap<Str, Volume>,
    /// Volumes by class, for those that look for one.
    by_class: HashMap<Str, Vec<Str>>,
    claims: HashMap<Key, Claim>,
    classes: HashMap<Str, Class>,
    /// By node: how many volumes of each driver it can have.
    limits: HashMap<Str, Vec<(Str, usize)>>,
    /// Volumes that were given to claims, which the server may not know yet.
    assumed: HashMap<Str, Key>,
}

impl Storage {
    pub(crate) fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.get(name)
    }

    pub(crate) fn claim(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    /// How many volumes of each driver a node can have; none are said for most.
    pub(crate) fn limits(&self, node: &str) -> &[(Str, usize)] {
        self.limits.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Takes in the newest state of an object, or that it is gone.
    pub(crate) fn set(&mut self, kind: Stored, key: &Key, object: Option<&Value>) {
        match kind {
            Stored::Volume => self.set_volume(&key.name, object.map(Volume::of)),
            Stored::Claim => put(&mut self.claims, key.clone(), object.map(Claim::of)),
            Stored::Class => put(&mut self.classes, key.name.clone(), object.map(Class::of)),
            Stored::CsiNode => put(&mut self.limits, key.name.clone(), object.map(limits)),
        }
    }

    fn set_volume(&mut self, name: &Str, volume: Option<Volume>) {
        if let Some(old) = self.volumes.remove(name)
            && let Some(names) = self.by_class.get_mut(&old.class)
        {
            names.retain(|known| known != name);
        }
        let Some(volume) = volume else {
            self.assumed.remove(name);
            return;
        };
        if volume.claim.is_some() {
            self.assumed.remove(name);
        }
        self.by_class.entry(volume.class.clone()).or_default().push(name.clone());
        self.volumes.insert(name.clone(), volume);
    }

    /// The smallest volume that a claim can have on a node, besides some that are taken.
    pub(crate) fn matching(
        &self,
        key: &Key,
        claim: &Claim,
        node: &crate::node::Node,
        taken: &[Str],
    ) -> Option<&Str> {
        let names = self.by_class.get(&claim.class)?;
        let mut best: Option<(&Str, i64)> = None;
        for name in names.iter().filter(|name| !taken.contains(name)) {
            let Some(volume) = self.volumes.get(name).filter(|volume| volume.suits(claim)) else { continue };
            let free = self.assumed.get(name).is_none_or(|to| to == key);
            if volume.is_reserved_for(key, claim) {
                return (free && volume.reaches(node)).then_some(name);
            }
            let found = free && volume.is_free() && volume.reaches(node);
            if found && best.is_none_or(|(_, size)| volume.size < size) {
                best = Some((name, volume.size));
            }
        }
        best.map(|(name, _)| name)
    }

    /// Counts a volume as a claim's.
    pub(crate) fn assume(&mut self, volume: &Str, claim: &Key) {
        self.assumed.insert(volume.clone(), claim.clone());
    }

    /// Nothing came of it.
    pub(crate) fn forget<'k>(&mut self, claims: impl Iterator<Item = &'k Key>) {
        for claim in claims {
            self.assumed.retain(|_, to| to != claim);
        }
    }
}

fn put<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn limits(node: &Value) -> Vec<(Str, usize)> {
    let limit = |driver: &Value| {
        let count = driver.int_at(&["allocatable", "count"])?;
        Some((Str::new(driver.str_at(&["name"])?), usize::try_from(count).ok()?))
    };
    node.items_at(&["spec", "drivers"]).iter().filter_map(limit).collect()
}
