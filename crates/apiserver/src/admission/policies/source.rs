//! The policies and bindings of one kind: those that are stored, and those of manifests on disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use corten_api::{Status, Str, Value, json};
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::RwLock;

use super::Exempt;
use super::hook::{Binding, Evaluator, Hook, Policy, Text};
use super::index::Index;
use crate::admission::unreadable::Unreadable;

pub(super) struct Source<E> {
    inner: Arc<Inner<E>>,
    store: Store,
}

/// The hooks that a request is compared with, if there are any; an error while one cannot be read.
pub(super) type Found<E> = Result<Option<Arc<Index<E>>>, Status>;

struct Inner<E> {
    state: RwLock<State<E>>,
}

/// A policy with its bindings.
type Bound<E> = (Arc<Policy<E>>, Vec<Arc<Binding>>);

struct State<E> {
    policies: BTreeMap<Str, Arc<Policy<E>>>,
    bindings: BTreeMap<Str, Arc<Binding>>,
    manifests: Vec<Bound<E>>,
    /// All hooks, those of manifests first; `None` if there are none.
    all: Option<Arc<Index<E>>>,
    /// Those of manifests alone.
    of_manifests: Option<Arc<Index<E>>>,
    /// True if the indexes are to be made again.
    is_outdated: bool,
    unreadable: Unreadable,
}

impl<E: Evaluator> Source<E> {
    pub(super) fn start(store: &Store) -> Source<E> {
        let state = State {
            policies: BTreeMap::new(),
            bindings: BTreeMap::new(),
            manifests: Vec::new(),
            all: None,
            of_manifests: None,
            is_outdated: true,
            unreadable: Unreadable::default(),
        };
        let inner = Arc::new(Inner { state: RwLock::new(state) });
        for prefix in [E::POLICIES, E::BINDINGS] {
            // Held until all objects are loaded: an event that arrives meanwhile waits in `apply`.
            let mut state = inner.state.write();
            let (_, entries) = store.observe(prefix, inner.clone());
            for entry in entries {
                state.take(&entry.key, Some(&entry));
            }
        }
        Source { inner, store: store.clone() }
    }

    pub(super) fn index(&self, exempt: Exempt) -> Found<E> {
        let mut state = self.inner.state.read();
        if state.is_outdated || !state.unreadable.is_empty() {
            drop(state);
            // Made with the first request after a change, so that many changes cost one index.
            self.inner.state.write().collect(&self.store);
            state = self.inner.state.read();
        }
        match exempt {
            Exempt::No => state.unreadable.check().map(|()| state.all.clone()),
            Exempt::FromStored => Ok(state.of_manifests.clone()),
            Exempt::Always => Ok(None),
        }
    }

    /// False if no request is changed or refused.
    pub(super) fn may_act(&self) -> bool {
        self.index(Exempt::No).map_or(true, |index| index.is_some())
    }

    /// Replaces the policies and bindings of manifests.
    pub(super) fn set_manifests(&self, policies: &[Value], bindings: &[Value]) {
        let bindings: Vec<Arc<Binding>> =
            bindings.iter().map(|binding| Arc::new(Binding::parse(binding))).collect();
        let hook = |object: &Value| {
            let policy: Policy<E> = Policy::parse(object, Text::Manifest(Box::new(object.clone())));
            let own = bindings.iter().filter(|binding| binding.policy == policy.name).cloned();
            (own.collect(), policy)
        };
        let hooks = policies.iter().map(hook).map(|(bindings, policy)| (Arc::new(policy), bindings));
        let mut state = self.inner.state.write();
        state.manifests = hooks.collect();
        state.is_outdated = true;
    }
}

impl<E: Evaluator> State<E> {
    fn take(&mut self, key: &str, entry: Option<&Arc<Entry>>) {
        self.is_outdated = true;
        if self.unreadable.note(key, entry) {
            return;
        }
        let object = entry.and_then(|entry| json::parse(&entry.value).ok());
        if let Some(name) = key.strip_prefix(E::POLICIES) {
            match (object, entry) {
                (Some(object), Some(entry)) => self.take_policy(name, &object, entry),
                _ => drop(self.policies.remove(name)),
            }
        } else if let Some(name) = key.strip_prefix(E::BINDINGS) {
            match object {
                Some(object) => {
                    self.bindings.insert(name.into(), Arc::new(Binding::parse(&object)));
                }
                None => drop(self.bindings.remove(name)),
            }
        }
    }

    fn take_policy(&mut self, name: &str, object: &Value, entry: &Arc<Entry>) {
        // A changed status leaves the compiled policy as it is.
        if self.policies.get(name).is_some_and(|known| known.has_spec_of(object)) {
            return;
        }
        self.policies.insert(name.into(), Arc::new(Policy::parse(object, Text::Stored(entry.clone()))));
    }

    fn collect(&mut self, store: &Store) {
        for entry in self.unreadable.read_again(store) {
            self.take(&entry.key, Some(&entry));
        }
        if !std::mem::take(&mut self.is_outdated) {
            return;
        }
        let mut bound: HashMap<&Str, Vec<Arc<Binding>>> = HashMap::new();
        for binding in self.bindings.values() {
            bound.entry(&binding.policy).or_default().push(binding.clone());
        }
        let of_manifests = || {
            let hooks = self.manifests.iter().filter(|(_, bindings)| !bindings.is_empty());
            hooks.map(|(policy, bindings)| Hook { policy: policy.clone(), bindings: bindings.clone() })
        };
        let stored = self.policies.values().filter_map(|policy| {
            Some(Hook { policy: policy.clone(), bindings: bound.get(&policy.name)?.clone() })
        });
        let present = |index: Index<E>| (!index.is_empty()).then(|| Arc::new(index));
        let all = present(Index::new(of_manifests().chain(stored).collect()));
        let alone = present(Index::new(of_manifests().collect()));
        self.all = all;
        self.of_manifests = alone;
    }
}

impl<E: Evaluator> Observer for Inner<E> {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut state = self.state.write();
        for event in events {
            state.take(&event.key, event.current.as_ref());
        }
    }
}
