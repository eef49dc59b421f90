//! The webhooks of all stored configurations, in the order of the configurations' names.

use std::collections::BTreeMap;
use std::sync::Arc;

use corten_api::{Status, Value, json, meta};
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::RwLock;

use super::configuration::{Webhook, WebhookKind};
use crate::admission::unreadable::Unreadable;
use crate::webhook_client::KubeconfigUsers;

type List = Arc<[Arc<Webhook>]>;

pub(super) struct Source {
    inner: Arc<Inner>,
    store: Store,
}

struct Inner {
    kind: WebhookKind,
    prefix: &'static str,
    /// The credentials for the servers of webhooks.
    users: KubeconfigUsers,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    by_configuration: BTreeMap<String, Vec<Arc<Webhook>>>,
    manifests: List,
    /// Those of manifests first.
    all: List,
    unreadable: Unreadable,
}

impl Source {
    pub(super) fn start(store: &Store, kind: WebhookKind, users: KubeconfigUsers) -> Source {
        let prefix = match kind {
            WebhookKind::Mutating => "/registry/mutatingwebhookconfigurations/",
            WebhookKind::Validating => "/registry/validatingwebhookconfigurations/",
        };
        let inner = Arc::new(Inner { kind, prefix, users, state: RwLock::default() });
        // Held until all objects are loaded: an event that arrives meanwhile waits in `apply`.
        let mut state = inner.state.write();
        let (_, entries) = store.observe(prefix, inner.clone());
        for entry in entries {
            inner.take(&mut state, &entry.key, Some(&entry));
        }
        state.collect();
        drop(state);
        Source { inner, store: store.clone() }
    }

    /// All webhooks; an error while a configuration cannot be read.
    pub(super) fn webhooks(&self) -> Result<List, Status> {
        let state = self.inner.state.read();
        if state.unreadable.is_empty() {
            return Ok(state.all.clone());
        }
        drop(state);
        let mut state = self.inner.state.write();
        for entry in state.unreadable.read_again(&self.store) {
            self.inner.take(&mut state, &entry.key, Some(&entry));
        }
        state.collect();
        state.unreadable.check()?;
        Ok(state.all.clone())
    }

    pub(super) fn of_manifests(&self) -> List {
        self.inner.state.read().manifests.clone()
    }

    /// Replaces the webhooks of manifests.
    pub(super) fn set_manifests<'v>(&self, configurations: impl Iterator<Item = &'v Value>) {
        let mut state = self.inner.state.write();
        state.manifests = configurations.flat_map(|object| self.inner.webhooks_of(object)).collect();
        state.collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.inner.state.read();
        state.all.is_empty() && state.unreadable.is_empty()
    }
}

impl Inner {
    fn take(&self, state: &mut State, key: &str, entry: Option<&Arc<Entry>>) {
        if state.unreadable.note(key, entry) {
            return;
        }
        let name = key.strip_prefix(self.prefix).unwrap_or(key);
        let object = entry.and_then(|entry| json::parse(&entry.value).ok());
        match object {
            Some(object) => {
                let webhooks = self.webhooks_of(&object);
                state.by_configuration.insert(name.to_owned(), webhooks);
            }
            None => drop(state.by_configuration.remove(name)),
        }
    }

    /// The webhooks of a configuration. Names need not be unique; a number tells webhooks of one name apart.
    fn webhooks_of(&self, configuration: &Value) -> Vec<Arc<Webhook>> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let name = meta::name(configuration);
        let webhooks = configuration.items_at(&["webhooks"]).iter();
        webhooks
            .map(|webhook| {
                let number = seen.entry(webhook.str_at(&["name"]).unwrap_or_default()).or_default();
                let parsed = Webhook::parse(self.kind, name, *number, webhook, &self.users);
                *number += 1;
                Arc::new(parsed)
            })
            .collect()
    }
}

impl State {
    fn collect(&mut self) {
        let stored = self.by_configuration.values().flatten();
        self.all = self.manifests.iter().chain(stored).cloned().collect();
    }
}

impl Observer for Inner {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut state = self.state.write();
        for event in events {
            self.take(&mut state, &event.key, event.current.as_ref());
        }
        state.collect();
    }
}
