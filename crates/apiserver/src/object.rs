//! An object as the server keeps it: its encoded text once, and the few fields that are looked up.
//!
//! Invariant: `json` begins with kind and apiVersion of the stored form and contains the object's own
//! revision at `revision_at`. Text and projection never change; a new version is a new `Object`.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::{Map, Str, Value, encoded, json, meta};
use corten_registry::Rules;
use corten_store::Entry;
use parking_lot::Mutex;

/// What selectors look at, computed once per version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Projection {
    pub labels: Box<[(Str, Str)]>,
    /// In the order of the resource's selectable fields.
    pub fields: Box<[Str]>,
}

#[derive(Debug)]
pub(crate) struct Object {
    /// The store's key.
    pub key: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Str,
    pub name: Str,
    pub revision: u64,
    pub json: Bytes,
    /// How much of `json` is kind and apiVersion.
    pub head: u32,
    pub revision_at: u32,
    pub projection: Arc<Projection>,
    parsed: OnceLock<Box<Value>>,
    /// What it was written from, for a while: see `cache::Recent`.
    recent: Mutex<Option<Arc<Value>>>,
}

/// What the handlers know of a value they write, so that nobody has to read it again.
#[derive(Debug)]
pub(crate) struct Written {
    pub revision_at: u32,
    pub projection: Arc<Projection>,
    /// What is written, in the stored form and without its revision, for the cache to take.
    pub tree: Mutex<Option<Box<Value>>>,
}

impl Written {
    /// What was written, at the revision it now has.
    fn take_tree(&self, revision: u64) -> Option<Arc<Value>> {
        let mut tree = self.tree.lock().take()?;
        meta::set_text(&mut tree, "resourceVersion", itoa::Buffer::new().format(revision));
        Some(Arc::new(*tree))
    }
}

/// The stored form of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub rules: &'static Rules,
    pub kind: &'static str,
    pub api_version: String,
    pub head: u32,
    pub namespaced: bool,
    /// `/registry/pods/`.
    pub prefix: String,
}

impl Projection {
    pub(crate) fn of(object: &Value, rules: &Rules) -> Projection {
        let labels = meta::labels(object);
        let pair = |(key, value): (&Str, &Value)| Some((key.clone(), Str::new(value.as_str()?)));
        Projection {
            labels: labels.into_iter().flat_map(Map::iter).filter_map(pair).collect(),
            fields: rules.selectable.iter().map(|field| (field.value)(object)).collect(),
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl Form {
    /// Where an object is kept.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Arc<str> {
        let mut key = String::with_capacity(self.prefix.len() + namespace.len() + name.len() + 1);
        key.push_str(&self.prefix);
        if self.namespaced {
            key.push_str(namespace);
            key.push('/');
        }
        key.push_str(name);
        key.into()
    }

    /// Namespace and name from a key.
    fn split<'k>(&self, key: &'k str) -> (&'k str, &'k str) {
        let rest = key.strip_prefix(self.prefix.as_str()).unwrap_or(key);
        if self.namespaced { rest.split_once('/').unwrap_or(("", rest)) } else { ("", rest) }
    }

    /// The object in a store entry that a handler of this process wrote.
    pub(crate) fn object(&self, entry: &Entry, written: &Written) -> Object {
        let (namespace, name) = self.split(&entry.key);
        let recent = written.take_tree(entry.mod_revision);
        debug_assert!(
            recent.as_deref().is_none_or(|tree| json::parse(&entry.value).is_ok_and(|read| read == *tree)),
            "what is kept of {} is not what was written",
            entry.key
        );
        Object {
            key: entry.key.clone(),
            namespace: namespace.into(),
            name: name.into(),
            revision: entry.mod_revision,
            json: entry.value.clone(),
            head: self.head,
            revision_at: written.revision_at,
            projection: written.projection.clone(),
            parsed: OnceLock::new(),
            recent: Mutex::new(recent),
        }
    }

    /// The object in any store entry. Text that is not in our own form (written by another server, or
    /// before a change of form) is brought to it.
    pub(crate) fn read(&self, entry: &Entry) -> Result<Object, json::ParseError> {
        let tree = json::parse(&entry.value)?;
        let text = encoded::encode(&tree, self.kind, &self.api_version);
        let written = Written {
            revision_at: text.revision_at as u32,
            projection: Arc::new(Projection::of(&tree, self.rules)),
            tree: Mutex::default(),
        };
        let mut object = self.object(entry, &written);
        let spliced = splice(&text.bytes, text.revision_at, 0, entry.mod_revision);
        if spliced != entry.value {
            object.json = spliced.into();
        }
        Ok(object)
    }
}

/// Replaces `len` bytes at `at` by the digits of a revision.
fn splice(text: &[u8], at: usize, len: usize, revision: u64) -> Vec<u8> {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision).as_bytes();
    let mut out = Vec::with_capacity(text.len() + digits.len());
    out.extend_from_slice(&text[..at]);
    out.extend_from_slice(digits);
    out.extend_from_slice(&text[at + len..]);
    out
}

impl Object {
    /// The tree. Whoever asks first soon after the object was written has it without reading the text.
    pub(crate) fn tree(&self) -> Value {
        match self.recent.lock().take() {
            Some(tree) => Arc::try_unwrap(tree).unwrap_or_else(|shared| Value::clone(&shared)),
            None => json::parse(&self.json).unwrap_or_default(),
        }
    }

    /// The tree, if it is still there from when the object was written.
    pub(crate) fn recent(&self) -> Option<Arc<Value>> {
        self.recent.lock().clone()
    }

    pub(crate) fn forget_recent(&self) {
        self.recent.lock().take();
    }

    /// The tree, kept from the first use on. Only for the few objects that many requests look into, such as
    /// a namespace's quotas: a tree is several times as large as its text.
    pub(crate) fn parsed(&self) -> &Value {
        self.parsed.get_or_init(|| Box::new(self.tree()))
    }

    /// The text without kind and apiVersion, as items of lists have it, without its opening brace.
    pub(crate) fn item_rest(&self) -> &[u8] {
        &self.json[self.head as usize + 1..]
    }

    /// The text as of another revision: how a deletion shows the object it removed.
    pub(crate) fn json_at(&self, revision: u64) -> Bytes {
        let len = itoa::Buffer::new().format(self.revision).len();
        splice(&self.json, self.revision_at as usize, len, revision).into()
    }
}
