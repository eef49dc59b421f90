//! The webhooks of all stored configurations, in the order of the configurations' names.

use std::collections::BTreeMap;
use std::sync::Arc;

use corten_api::{Value, json, meta};
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::RwLock;

use super::configuration::{Webhook, WebhookKind};
use crate::webhook_client::KubeconfigUsers;

type List = Arc<[Arc<Webhook>]>;

pub(super) struct Source(Arc<Inner>);

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
        Source(inner)
    }

    pub(super) fn webhooks(&self) -> List {
        self.0.state.read().all.clone()
    }

    pub(super) fn of_manifests(&self) -> List {
        self.0.state.read().manifests.clone()
    }

    /// Replaces the webhooks of manifests.
    pub(super) fn set_manifests<'v>(&self, configurations: impl Iterator<Item = &'v Value>) {
        let mut state = self.0.state.write();
        state.manifests = configurations.flat_map(|object| self.0.webhooks_of(object)).collect();
        state.collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.state.read().all.is_empty()
    }
}

impl Inner {
    fn take(&self, state: &mut State, key: &str, entry: Option<&Arc<Entry>>) {
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
