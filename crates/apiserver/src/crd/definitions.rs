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
use corten_store::{Entry, Event, Observer, Store};
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
    types: Arc<CompiledTypes>,
    /// The resource of the definition's previous text, until this text is read: it is kept if the specification is the
    /// same.
    previous: Mutex<Option<Arc<CustomResource>>>,
    read: OnceLock<Option<Reading>>,
}

/// A definition that was read.
struct Reading {
    resource: Arc<CustomResource>,
    is_served: bool,
    is_terminating: bool,
}

impl Slot {
    fn reading(&self) -> Option<&Reading> {
        let read = || {
            let previous = self.previous.lock().take();
            let reading = self.parse(previous.as_ref());
            let is_kept = |previous: &Arc<CustomResource>| {
                reading.as_ref().is_some_and(|reading| Arc::ptr_eq(&reading.resource, previous))
            };
            previous.filter(|previous| !is_kept(previous)).inspect(|previous| previous.end());
            reading
        };
        self.read.get_or_init(read).as_ref()
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
        match self.read.get() {
            Some(reading) => reading.as_ref().map(|reading| reading.resource.clone()),
            None => self.previous.lock().clone(),
        }
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
        let previous = self.slots.remove(&name).and_then(|slot| slot.resource_if_read());
        match entry {
            Some(entry) => {
                let slot = Slot {
                    text: entry.value.clone(),
                    types: types.clone(),
                    previous: Mutex::new(previous),
                    read: OnceLock::new(),
                };
                self.slots.insert(name, Arc::new(slot));
            }
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
