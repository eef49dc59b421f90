//! Volumes, claims and classes, as the scheduler sees them.
//!
//! Decisions about volumes count at once, whether or not the API server has confirmed them, until it refuses.

mod attachments;
mod capacity;
mod claim;
mod class;
mod volume;

use std::collections::{HashMap, HashSet};

use corten_api::{Str, Value};
use corten_client::Key;

use attachments::Attachments;
use capacity::Capacity;
pub(crate) use claim::{Claim, SELECTED_NODE};
pub(crate) use class::Class;
pub(crate) use volume::{Attachable, Volume};

/// The kinds of storage objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Volume,
    Claim,
    Class,
    CsiNode,
    CsiDriver,
    Capacity,
    Attachment,
}

#[derive(Default)]
pub(crate) struct Storage {
    volumes: HashMap<Str, Volume>,
    /// Volumes by class, for matching.
    by_class: HashMap<Str, Vec<Str>>,
    claims: HashMap<Key, Claim>,
    classes: HashMap<Str, Class>,
    /// By node: the attach limit of each driver.
    limits: HashMap<Str, Vec<(Str, usize)>>,
    /// Drivers that report their storage capacity.
    reporting: HashSet<Str>,
    capacities: HashMap<Key, Capacity>,
    attachments: Attachments,
    /// Volumes that are assumed to be bound to claims.
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

    /// The attach limits of a node; most have none.
    pub(crate) fn limits(&self, node: &str) -> &[(Str, usize)] {
        self.limits.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Updates or removes an object.
    pub(crate) fn set(&mut self, kind: Stored, key: &Key, object: Option<&Value>) {
        match kind {
            Stored::Volume => self.set_volume(&key.name, object.map(Volume::of)),
            Stored::Claim => put(&mut self.claims, key.clone(), object.map(Claim::of)),
            Stored::Class => put(&mut self.classes, key.name.clone(), object.map(Class::of)),
            Stored::CsiNode => put(&mut self.limits, key.name.clone(), object.map(limits)),
            Stored::CsiDriver => {
                let tells = object.and_then(|driver| driver.bool_at(&["spec", "storageCapacity"]));
                match tells {
                    Some(true) => self.reporting.insert(key.name.clone()),
                    _ => self.reporting.remove(&key.name),
                };
            }
            Stored::Capacity => put(&mut self.capacities, key.clone(), object.map(Capacity::of)),
            Stored::Attachment => self.attachments.set(&key.name, object),
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

    /// The smallest matching volume of a claim on a node, except for taken ones.
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
            let Some(volume) = self.volumes.get(name).filter(|volume| volume.matches(claim)) else {
                continue;
            };
            let free = self.assumed.get(name).is_none_or(|to| to == key);
            if volume.is_reserved_for(key, claim) {
                return (free && volume.is_available_on(node)).then_some(name);
            }
            let found = free && volume.is_free() && volume.is_available_on(node);
            if found && best.is_none_or(|(_, size)| volume.size < size) {
                best = Some((name, volume.size));
            }
        }
        best.map(|(name, _)| name)
    }

    /// True if the provisioner of a class has capacity for a claim on a node. Only some drivers report it.
    pub(crate) fn has_room(&self, claim: &Claim, class: &Class, node: &crate::node::Node) -> bool {
        let Some(size) = claim.asked.filter(|_| self.reporting.contains(&class.provisioner)) else {
            return true;
        };
        self.capacities.values().any(|capacity| capacity.suffices(&claim.class, size, node))
    }

    /// The volumes attached to a node, of any pod.
    pub(crate) fn attached(&self, node: &str) -> impl Iterator<Item = Attachable> {
        let known = |(driver, volume): (&Str, &Str)| {
            let handle = self.volumes.get(volume)?.attachable.as_ref()?.handle.clone();
            Some(Attachable { driver: driver.clone(), handle })
        };
        self.attachments.of(node).filter_map(known)
    }

    /// Assumes a volume to be bound to a claim.
    pub(crate) fn assume(&mut self, volume: &Str, claim: &Key) {
        self.assumed.insert(volume.clone(), claim.clone());
    }

    /// Drops assumptions after a failure.
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
