//! An object in a cache: its JSON text, and the few fields that lookups need.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value, json, meta};
use parking_lot::Mutex;

use crate::Seen;

/// The namespace and the name of an object. The namespace is empty for cluster-scoped ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key {
    pub namespace: Str,
    pub name: Str,
}

impl Key {
    pub fn new(namespace: impl Into<Str>, name: impl Into<Str>) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    pub fn of(object: &Value) -> Key {
        Key::new(meta::namespace(object), meta::name(object))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// An owner reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    pub uid: Str,
    pub controller: bool,
    pub blocks_deletion: bool,
}

/// A typed view of the objects of one kind, computed once per version of an object.
pub trait View: Any + Send + Sync {
    fn of(tree: &Value) -> Self;
}

pub struct Object {
    pub key: Key,
    pub uid: Str,
    /// The resource version as a number; it only grows.
    pub revision: u64,
    pub labels: Map,
    pub owners: Box<[Owner]>,
    pub deleting: bool,
    pub json: Bytes,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// The parsed tree while subscribers are called, so that they need not parse the text again.
    parsed: Mutex<Option<Arc<Value>>>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.key, self.revision)
    }
}

impl Object {
    /// Makes a cached object of a tree.
    pub fn of(tree: &Value) -> Object {
        Object::with_text(tree, json::write_to_string(tree).into())
    }

    pub(crate) fn read(seen: Seen) -> Result<Object, json::ParseError> {
        let tree = seen.tree()?;
        let object = Object::with_text(&tree, seen.text);
        *object.parsed.lock() = Some(tree);
        Ok(object)
    }

    /// Drops the parsed tree once all subscribers have been called.
    pub(crate) fn forget_tree(&self) {
        self.parsed.lock().take();
    }

    fn with_text(tree: &Value, text: Bytes) -> Object {
        Object {
            key: Key::of(tree),
            uid: meta::uid(tree).into(),
            revision: meta::resource_version(tree).parse().unwrap_or(0),
            labels: meta::labels(tree).cloned().unwrap_or_default(),
            owners: Owner::all(tree),
            deleting: meta::is_deleting(tree),
            json: text,
            view: OnceLock::new(),
            parsed: Mutex::default(),
        }
    }

    /// Parses the whole object.
    pub fn tree(&self) -> Value {
        json::parse(&self.json).unwrap_or_default()
    }

    /// Calls a function with the whole object. While subscribers are called, this parses nothing.
    pub fn with_tree<T>(&self, read: impl FnOnce(&Value) -> T) -> T {
        let parsed = self.parsed.lock().clone();
        match parsed {
            Some(tree) => read(&tree),
            None => read(&self.tree()),
        }
    }

    /// The typed view of this object. The first type that is used is cached; any other is computed at every call.
    pub fn view<V: View>(&self) -> Arc<V> {
        let any = self.view.get_or_init(|| Arc::new(self.with_tree(V::of))).clone();
        any.downcast::<V>().unwrap_or_else(|_| Arc::new(self.with_tree(V::of)))
    }

    /// The managing owner.
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches(&self.labels)
    }
}

impl Owner {
    /// All owner references of an object.
    pub fn all(object: &Value) -> Box<[Owner]> {
        object.items_at(&["metadata", "ownerReferences"]).iter().map(Owner::of).collect()
    }

    fn of(reference: &Value) -> Owner {
        let text = |key: &str| Str::new(reference.str_at(&[key]).unwrap_or_default());
        Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: reference.bool_at(&["controller"]) == Some(true),
            blocks_deletion: reference.bool_at(&["blockOwnerDeletion"]) == Some(true),
        }
    }
}
