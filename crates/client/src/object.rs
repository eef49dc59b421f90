//! An object as a cache keeps it: its text, and the few things that are looked up.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value, json, meta};
use parking_lot::Mutex;

use crate::Seen;

/// Which object of a kind. The namespace is empty for what has none.
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

/// Somebody an object belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    pub uid: Str,
    pub controller: bool,
    pub blocks_deletion: bool,
}

/// What is read off the objects of one kind often enough to be kept: computed once per version of an object.
pub trait View: Any + Send + Sync {
    fn of(tree: &Value) -> Self;
}

pub struct Object {
    pub key: Key,
    pub uid: Str,
    /// The object's version as a number; versions only grow.
    pub revision: u64,
    pub labels: Map,
    pub owners: Box<[Owner]>,
    pub deleting: bool,
    pub json: Bytes,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// What it was read from, while it is being told about: whoever needs more of it then need not read it again.
    fresh: Mutex<Option<Arc<Value>>>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.key, self.revision)
    }
}

impl Object {
    /// An object as a cache would keep it.
    pub fn of(tree: &Value) -> Object {
        Object::take(tree, json::write_to_string(tree).into())
    }

    pub(crate) fn read(seen: Seen) -> Result<Object, json::ParseError> {
        let tree = seen.tree()?;
        let object = Object::take(&tree, seen.text);
        *object.fresh.lock() = Some(tree);
        Ok(object)
    }

    /// Everybody has been told.
    pub(crate) fn forget_tree(&self) {
        self.fresh.lock().take();
    }

    fn take(tree: &Value, text: Bytes) -> Object {
        Object {
            key: Key::of(tree),
            uid: meta::uid(tree).into(),
            revision: meta::resource_version(tree).parse().unwrap_or(0),
            labels: meta::labels(tree).cloned().unwrap_or_default(),
            owners: Owner::all(tree),
            deleting: meta::is_deleting(tree),
            json: text,
            view: OnceLock::new(),
            fresh: Mutex::default(),
        }
    }

    /// The whole object.
    pub fn tree(&self) -> Value {
        json::parse(&self.json).unwrap_or_default()
    }

    /// Looks at the whole object, which costs next to nothing for those who do so while they are told of it.
    pub fn with_tree<T>(&self, look: impl FnOnce(&Value) -> T) -> T {
        let fresh = self.fresh.lock().clone();
        match fresh {
            Some(tree) => look(&tree),
            None => look(&self.tree()),
        }
    }

    /// The view of this kind's objects. Each kind has one type of view; asking for another works, slowly.
    pub fn view<V: View>(&self) -> Arc<V> {
        let any = self.view.get_or_init(|| Arc::new(self.with_tree(V::of))).clone();
        any.downcast::<V>().unwrap_or_else(|_| Arc::new(self.with_tree(V::of)))
    }

    /// The owner that manages it.
    pub fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches(&self.labels)
    }
}

impl Owner {
    /// Everybody an object belongs to.
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
