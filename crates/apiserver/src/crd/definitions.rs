//! The stored definitions, and the custom resources that they define.
//!
//! The store notifies this observer before it acknowledges a write: a definition that is established is served when the
//! client has the response. The observer only replaces texts; a definition is read when a request needs it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::Str;
use corten_api::openapi::CustomVersion;
use corten_api::resources::Resource;
use corten_store::{Entry, Event, Expect, Observer, Op, Store};
use parking_lot::{Mutex, RwLock};

use super::compiled_types::CompiledTypes;
use super::definition::{Definition, compare_versions};
use super::resource::CustomResource;
use super::version::IDLE;
use super::{GROUP, RESOURCE};
use crate::cache::Cache;
use crate::catalog::Served;
use crate::recent_writes::RecentWrites;

/// All definitions, by name.
pub(crate) struct Definitions {
    store: Store,
    recent_writes: Arc<RecentWrites>,
    state: RwLock<State>,
    types: Arc<CompiledTypes>,
}

#[derive(Default)]
struct State {
    slots: HashMap<String, Arc<Slot>>,
    /// Changes with every change of a definition.
    generation: u64,
    /// The rows of discovery, until a definition changes.
    resources: Option<Arc<[Arc<Resource>]>>,
    /// The versions in OpenAPI documents, until a definition changes.
    openapi: Option<Arc<[Arc<CustomVersion>]>>,
}

/// One stored definition, read when it is first needed.
struct Slot {
    text: Bytes,
    revision: u64,
    types: Arc<CompiledTypes>,
    known: Mutex<Known>,
    read: OnceLock<Option<Reading>>,
}

/// The resource of a definition, as far as it is known.
#[derive(Default)]
struct Known {
    /// That of the definition's previous text, until this text is read: it is kept if the specification is the same.
    resource: Option<Arc<CustomResource>>,
    /// Set once the definition has another text. Its slot has the resource that was known then, and ends it; one that is
    /// created later is in no slot.
    is_replaced: bool,
}

/// A definition that was read.
struct Reading {
    resource: Arc<CustomResource>,
    is_served: bool,
    is_terminating: bool,
}

impl Slot {
    fn new(entry: &Entry, types: &Arc<CompiledTypes>, previous: Option<Arc<CustomResource>>) -> Slot {
        Slot {
            text: entry.value.clone(),
            revision: entry.mod_revision,
            types: types.clone(),
            known: Mutex::new(Known { resource: previous, is_replaced: false }),
            read: OnceLock::new(),
        }
    }

    fn reading(&self) -> Option<&Reading> {
        let read = || {
            let previous = self.resource_if_read();
            let reading = self.parse(previous.as_ref());
            self.learn(reading.as_ref(), previous.as_ref());
            reading
        };
        self.read.get_or_init(read).as_ref()
    }

    /// Replaces the resource of the previous text by that of this one.
    fn learn(&self, reading: Option<&Reading>, previous: Option<&Arc<CustomResource>>) {
        let resource = reading.map(|reading| reading.resource.clone());
        let is_kept = match (&resource, previous) {
            (Some(resource), Some(previous)) => Arc::ptr_eq(resource, previous),
            _ => false,
        };
        if is_kept {
            return;
        }
        let mut known = self.known.lock();
        let ended = match known.is_replaced {
            true => resource,
            false => std::mem::replace(&mut known.resource, resource),
        };
        drop(known);
        if let Some(ended) = ended {
            ended.end();
        }
    }

    /// Marks the definition as one that has another text now. Returns its resource.
    fn replace(&self) -> Option<Arc<CustomResource>> {
        let mut known = self.known.lock();
        known.is_replaced = true;
        known.resource.take()
    }

    fn parse(&self, previous: Option<&Arc<CustomResource>>) -> Option<Reading> {
        let definition = Definition::parse(&self.text)?;
        let (is_served, is_terminating) = (definition.is_served, definition.is_terminating);
        let kept = previous.filter(|previous| previous.digest == definition.digest);
        let resource = match kept {
            Some(kept) => kept.clone(),
            None => Arc::new(CustomResource::new(definition, &self.types)?),
        };
        Some(Reading { resource, is_served, is_terminating })
    }

    /// The resource of this text or, if it was not read, of the one before.
    fn resource_if_read(&self) -> Option<Arc<CustomResource>> {
        self.known.lock().resource.clone()
    }
}

impl Definitions {
    pub(crate) fn start(store: &Store, recent_writes: &Arc<RecentWrites>) -> Arc<Definitions> {
        let definitions = Arc::new(Definitions {
            store: store.clone(),
            recent_writes: recent_writes.clone(),
            state: RwLock::default(),
            types: Arc::default(),
        });
        let prefix = prefix();
        // Held until all definitions are loaded: an event that arrives meanwhile waits in `apply`.
        let mut state = definitions.state.write();
        let (_, entries) = store.observe(&prefix, definitions.clone());
        for entry in entries {
            state.set(&entry.key, Some(&entry), &definitions.types);
        }
        drop(state);
        definitions
    }

    /// A custom resource in one version, if it is served.
    pub(crate) fn get(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Served>> {
        let slot = self.slot(&format!("{resource}.{group}"))?;
        let reading = slot.reading().filter(|reading| reading.is_served)?;
        let served = reading.resource.served(&self.store, &self.recent_writes);
        served.iter().find(|served| served.resource.version == version).cloned()
    }

    fn slot(&self, name: &str) -> Option<Arc<Slot>> {
        self.state.read().slots.get(name).cloned()
    }

    /// The resource of a definition in its stored version, whether that is served or not.
    pub(super) fn stored(&self, name: &str) -> Option<Arc<Served>> {
        let slot = self.slot(name)?;
        let resource = &slot.reading()?.resource;
        Some(Arc::new(resource.stored_version(&self.store, &self.recent_writes)))
    }

    /// Waits until a type was compiled.
    pub(super) async fn compiled(&self) {
        self.types.compiled().await;
    }

    /// True while the objects of a definition are being removed.
    pub(crate) fn is_terminating(&self, group: &str, resource: &str) -> bool {
        let slot = self.slot(&format!("{resource}.{group}"));
        slot.is_some_and(|slot| slot.reading().is_some_and(|reading| reading.is_terminating))
    }

    /// A check that a definition is still the one of now and accepts new objects; `None` if it does not.
    ///
    /// A create commits with this check: without it, an object could be stored after all objects of a deleted definition were
    /// removed, and would be there again when the definition is.
    pub(crate) fn check_accepts(&self, group: &str, resource: &str) -> Option<Op> {
        let name = format!("{resource}.{group}");
        let slot = self.slot(&name)?;
        slot.reading().filter(|reading| !reading.is_terminating)?;
        let (key, expect) = (format!("{}{name}", prefix()).into(), Expect::ModRevision(slot.revision));
        Some(Op::Check { key, expect })
    }

    /// The served versions of a definition. Reads it if it changed.
    pub(super) fn served_versions(&self, name: &str) -> Vec<Str> {
        let slot = self.slot(name);
        let reading = slot.as_ref().and_then(|slot| slot.reading()).filter(|reading| reading.is_served);
        let versions = reading.into_iter().flat_map(|reading| &reading.resource.versions);
        versions.filter(|version| version.info.served).map(|version| version.info.name.clone()).collect()
    }

    /// The rows of discovery: by group, then by version in order of priority.
    pub(crate) fn resources(&self) -> Arc<[Arc<Resource>]> {
        if let Some(resources) = &self.state.read().resources {
            return resources.clone();
        }
        let (generation, served) = self.served();
        let mut resources: Vec<Arc<Resource>> =
            served.iter().flat_map(|resource| resource.resources()).cloned().collect();
        resources.sort_by(|a, b| {
            let versions = || compare_versions(&b.version, &a.version);
            a.group.cmp(&b.group).then_with(versions).then_with(|| a.name.cmp(&b.name))
        });
        let resources: Arc<[Arc<Resource>]> = resources.into();
        let mut state = self.state.write();
        if state.generation == generation {
            state.resources = Some(resources.clone());
        }
        resources
    }

    /// The served versions, as OpenAPI documents show them, in order of group, version and name.
    pub(crate) fn openapi(&self) -> Arc<[Arc<CustomVersion>]> {
        if let Some(versions) = &self.state.read().openapi {
            return versions.clone();
        }
        let (generation, served) = self.served();
        let mut versions: Vec<Arc<CustomVersion>> =
            served.iter().flat_map(|resource| resource.openapi()).cloned().collect();
        versions.sort_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
        let versions: Arc<[Arc<CustomVersion>]> = versions.into();
        let mut state = self.state.write();
        if state.generation == generation {
            state.openapi = Some(versions.clone());
        }
        versions
    }

    /// The served resources, and the generation of the definitions they come from. Definitions are read without the lock:
    /// requests do not wait for that.
    fn served(&self) -> (u64, Vec<Arc<CustomResource>>) {
        let (generation, slots): (u64, Vec<Arc<Slot>>) = {
            let state = self.state.read();
            (state.generation, state.slots.values().cloned().collect())
        };
        let readings = slots.iter().filter_map(|slot| slot.reading());
        let served = readings.filter(|reading| reading.is_served).map(|reading| reading.resource.clone());
        (generation, served.collect())
    }

    /// The caches of the resources that were used.
    pub(crate) fn caches(&self) -> Vec<Arc<Cache>> {
        let state = self.state.read();
        let resources = state.slots.values().filter_map(|slot| slot.resource_if_read());
        resources.filter_map(|resource| resource.cache().cloned()).collect()
    }

    /// Drops compiled versions that were not used for a while. Returns true if there are others.
    pub(super) fn drop_idle(&self) -> bool {
        self.types.drop_idle(IDLE) > 0
    }
}

fn prefix() -> String {
    format!("/registry/{GROUP}/{RESOURCE}/")
}

impl State {
    fn set(&mut self, key: &str, entry: Option<&Arc<Entry>>, types: &Arc<CompiledTypes>) {
        self.generation += 1;
        self.resources = None;
        self.openapi = None;
        let name = key.strip_prefix(&prefix()).unwrap_or(key).to_owned();
        let previous = self.slots.remove(&name).and_then(|slot| slot.replace());
        match entry {
            Some(entry) => drop(self.slots.insert(name, Arc::new(Slot::new(entry, types, previous)))),
            None => {
                if let Some(previous) = previous {
                    previous.end();
                }
            }
        }
    }
}

impl Observer for Definitions {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut state = self.state.write();
        for event in events {
            state.set(&event.key, event.current.as_ref(), &self.types);
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{json, value};

    use super::*;

    fn entry(revision: u64, group: &str) -> Arc<Entry> {
        let definition = value!({
            "metadata": {"name": (format!("widgets.{group}"))},
            "spec": {
                "group": (group), "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "description": (format!("of {group}")),
                }}}],
            },
        });
        Arc::new(Entry {
            key: format!("{}widgets.example.com", prefix()).into(),
            value: json::write_to_string(&definition).into(),
            create_revision: 1,
            mod_revision: revision,
            version: 1,
            lease: None,
            note: None,
        })
    }

    fn resource(slot: &Slot) -> Arc<CustomResource> {
        slot.reading().expect("the definition is valid").resource.clone()
    }

    #[test]
    fn a_resource_is_kept_while_its_specification_is_the_same() {
        let types = Arc::default();
        let (mut state, key) = (State::default(), entry(1, "a").key.clone());
        let mut set = |entry: Option<Arc<Entry>>| {
            state.set(&key, entry.as_ref(), &types);
            state.slots.get("widgets.example.com").cloned()
        };
        let first = resource(&set(Some(entry(1, "a"))).unwrap());
        let unread = set(Some(entry(2, "b"))).unwrap();
        let again = resource(&set(Some(entry(3, "a"))).unwrap());
        assert!(Arc::ptr_eq(&first, &again) && !first.has_ended(), "no request saw the one between");
        // A request that began before reads the old text: what it creates ends, and disturbs no other.
        assert!(resource(&unread).has_ended());
        assert!(!again.has_ended());
        let other = resource(&set(Some(entry(4, "b"))).unwrap());
        assert!(again.has_ended() && !other.has_ended());
        assert!(
            !Arc::ptr_eq(&first, &resource(&set(Some(entry(5, "a"))).unwrap())),
            "an ended one does not return"
        );
        assert!(other.has_ended());
    }

    #[test]
    fn a_definition_that_changes_while_it_is_read_ends_its_watches() {
        let types = Arc::default();
        let old = Slot::new(&entry(1, "a"), &types, None);
        let served = resource(&old);
        let changed = Slot::new(&entry(2, "b"), &types, old.replace());
        // A request begins to read it, and it is replaced meanwhile.
        let previous = changed.resource_if_read();
        let reading = changed.parse(previous.as_ref());
        let newest = Slot::new(&entry(3, "c"), &types, changed.replace());
        changed.learn(reading.as_ref(), previous.as_ref());
        assert!(reading.unwrap().resource.has_ended(), "it is in no slot");
        assert!(!served.has_ended());
        assert!(!resource(&newest).has_ended() && served.has_ended(), "the newest one ends what was served");
    }
}
