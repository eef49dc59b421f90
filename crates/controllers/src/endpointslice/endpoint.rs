//! One endpoint of a slice: created from a pod, decoded from and encoded to a slice, and compared by fingerprint.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use corten_api::{Map, Str, Value, value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) addresses: Vec<Str>,
    pub(super) hostname: Option<Str>,
    pub(super) target: Option<Target>,
    pub(super) node: Option<Str>,
    pub(super) zone: Option<Str>,
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
    pub(super) hints: Hints,
}

/// The pod behind an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) kind: Str,
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
}

/// The zones and nodes that should use an endpoint; all if empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints {
    pub(super) zones: Vec<Str>,
    pub(super) nodes: Vec<Str>,
}

/// The fingerprint of an endpoint. Slices are kept as fingerprints only, which takes a fraction of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Print {
    /// Equal for the same endpoint, in any state.
    pub(super) identity: u64,
    /// Equal for the same endpoint in the same state, hints excluded.
    pub(super) state: u64,
    pub(super) hints: u64,
}

static PRINTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn print(of: impl Hash) -> u64 {
    PRINTS.hash_one(of)
}

impl Endpoint {
    pub(super) fn is_ready(&self) -> bool {
        self.ready == Some(true)
    }

    pub(super) fn print(&self) -> Print {
        let target = self.target.as_ref();
        let named = target.map(|target| (&target.namespace, &target.name));
        Print {
            identity: print((&self.addresses, &self.hostname, named)),
            state: print((&self.node, &self.zone, self.ready, self.serving, self.terminating, target)),
            hints: print(&self.hints),
        }
    }

    /// Decodes an endpoint of a slice.
    pub(super) fn of(value: &Value) -> Endpoint {
        let text = |path: &[&str]| value.str_at(path).map(Str::new);
        let names = |list: &str| {
            let items = value.items_at(&["hints", list]).iter();
            items.filter_map(|item| item.str_at(&["name"])).map(Str::new).collect()
        };
        let mut addresses: Vec<_> =
            value.items_at(&["addresses"]).iter().filter_map(Value::as_str).map(Str::new).collect();
        addresses.sort_unstable();
        let condition = |kind: &str| value.bool_at(&["conditions", kind]);
        Endpoint {
            addresses,
            hostname: text(&["hostname"]),
            target: value.get("targetRef").map(Target::of),
            node: text(&["nodeName"]),
            zone: text(&["zone"]),
            ready: condition("ready"),
            serving: condition("serving"),
            terminating: condition("terminating"),
            hints: Hints { zones: names("forZones"), nodes: names("forNodes") },
        }
    }

    /// Encodes the endpoint for a slice.
    pub(super) fn to_value(&self) -> Value {
        let mut endpoint = Map::new();
        let addresses: Vec<Value> = self.addresses.iter().cloned().map(Value::from).collect();
        endpoint.insert("addresses", addresses);
        let mut conditions = Map::new();
        for (kind, holds) in
            [("ready", self.ready), ("serving", self.serving), ("terminating", self.terminating)]
        {
            if let Some(holds) = holds {
                conditions.insert(kind, holds);
            }
        }
        endpoint.insert("conditions", conditions);
        for (key, text) in [("hostname", &self.hostname), ("nodeName", &self.node), ("zone", &self.zone)] {
            if let Some(text) = text {
                endpoint.insert(key, text.clone());
            }
        }
        if let Some(target) = &self.target {
            endpoint.insert("targetRef", target.to_value());
        }
        if self.hints != Hints::default() {
            endpoint.insert("hints", self.hints.to_value());
        }
        Value::Object(endpoint)
    }
}

impl Target {
    fn of(reference: &Value) -> Target {
        let text = |key: &str| Str::new(reference.str_at(&[key]).unwrap_or_default());
        Target { kind: text("kind"), namespace: text("namespace"), name: text("name"), uid: text("uid") }
    }

    fn to_value(&self) -> Value {
        value!({
            "kind": (self.kind.clone()), "namespace": (self.namespace.clone()),
            "name": (self.name.clone()), "uid": (self.uid.clone()),
        })
    }
}

impl Hints {
    fn to_value(&self) -> Value {
        let names = |names: &[Str]| -> Vec<Value> {
            names.iter().map(|name| value!({"name": (name.clone())})).collect()
        };
        let mut hints = Map::new();
        for (key, list) in [("forZones", &self.zones), ("forNodes", &self.nodes)] {
            if !list.is_empty() {
                hints.insert(key, names(list));
            }
        }
        Value::Object(hints)
    }
}
