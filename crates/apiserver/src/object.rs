//! An object as the server keeps it: its encoded text once, and the few fields that selectors read.
//!
//! Invariant: `json` begins with kind and apiVersion of the stored form and contains the object's own
//! revision at `revision_at`. Text and projection never change; a new version is a new `Object`.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::{Map, Str, Value, encoded, json, meta};
use corten_registry::Rules;
use corten_store::Entry;

use crate::crd;
use crate::recent_writes::WrittenTree;

/// The labels and fields that selectors match, computed once per version.
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
    /// The length of the prefix of `json` that items of a list leave out: kind and apiVersion. Items of custom resources
    /// have both, as upstream's.
    pub head: u32,
    pub revision_at: u32,
    /// True if the text is in another version than the stored one: it was written before the stored version changed.
    pub is_foreign: bool,
    /// The memory beyond what is stored, of a custom resource that was brought to a changed schema.
    pub grown: Option<Box<crd::Grown>>,
    /// True if the store holds another text than `json`, so that an unchanged object is written nevertheless.
    pub is_stale: bool,
    pub projection: Arc<Projection>,
    parsed: OnceLock<Box<Value>>,
    /// The tree that it was written from, while the write is recent.
    pub written_tree: WrittenTree,
}

/// The note that a write handler attaches to a value, so that the cache does not parse the text again.
#[derive(Debug)]
pub(crate) struct Written {
    /// The form that the object was written in. A custom resource whose definition changed has another one.
    pub form: FormId,
    pub revision_at: u32,
    pub projection: Arc<Projection>,
    /// The tree in the stored form, without its revision.
    pub tree: WrittenTree,
}

/// Tells the stored forms of a resource apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FormId(pub u64);

/// The stored form of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// That of all built-in resources is the default.
    pub id: FormId,
    pub rules: &'static Rules,
    pub group: Str,
    pub resource: Str,
    pub kind: Str,
    pub api_version: String,
    pub head: u32,
    pub namespaced: bool,
    /// `/registry/pods/`.
    pub prefix: String,
    /// The definition of a custom resource.
    pub custom: Option<Arc<crd::StoredForm>>,
}

impl Projection {
    pub(crate) fn of(object: &Value, form: &Form) -> Projection {
        let labels = meta::labels(object);
        let pair = |(key, value): (&Str, &Value)| Some((key.clone(), Str::new(value.as_str()?)));
        Projection {
            labels: labels.into_iter().flat_map(Map::iter).filter_map(pair).collect(),
            fields: match &form.custom {
                None => form.rules.selectable.iter().map(|field| (field.value)(object)).collect(),
                Some(custom) => custom.selectable_values(object),
            },
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl Form {
    /// The store's key of an object.
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

    /// The object of a store entry that a handler of this process wrote in this form.
    pub(crate) fn object(&self, entry: &Entry, written: &Written) -> Object {
        let (namespace, name) = self.split(&entry.key);
        Object {
            key: entry.key.clone(),
            namespace: namespace.into(),
            name: name.into(),
            revision: entry.mod_revision,
            json: entry.value.clone(),
            head: self.head,
            revision_at: written.revision_at,
            is_foreign: false,
            grown: None,
            is_stale: false,
            projection: written.projection.clone(),
            parsed: OnceLock::new(),
            written_tree: written.tree.committed(entry),
        }
    }

    /// The object of any store entry. Text that is not in the stored form (written by another server, or before a
    /// change of the form) is encoded again.
    pub(crate) fn parse(&self, entry: &Entry) -> Result<Object, json::ParseError> {
        let mut tree = json::parse(&entry.value)?;
        let mut api_version = self.api_version.as_str();
        let found;
        if let Some(custom) = &self.custom
            && !custom.normalize(&mut tree)
        {
            found = meta::api_version(&tree).to_owned();
            api_version = &found;
        }
        let text = encoded::encode(&tree, &self.kind, api_version);
        let written = Written {
            form: self.id,
            revision_at: text.revision_at as u32,
            projection: Arc::new(Projection::of(&tree, self)),
            tree: WrittenTree::default(),
        };
        let mut object = self.object(entry, &written);
        object.is_foreign = api_version != self.api_version;
        let spliced = splice(&text.bytes, text.revision_at, 0, entry.mod_revision);
        if spliced != entry.value {
            object.grown =
                self.custom.as_ref().map(|custom| Box::new(custom.growth().count(entry, spliced.len())));
            object.json = spliced.into();
            object.is_stale = true;
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

#[cfg(test)]
impl Object {
    /// An object without content, at a revision.
    pub(crate) fn numbered(revision: usize) -> Object {
        Object {
            key: "".into(),
            namespace: Str::default(),
            name: Str::default(),
            revision: revision as u64,
            json: Bytes::new(),
            head: 0,
            revision_at: 0,
            is_foreign: false,
            grown: None,
            is_stale: false,
            projection: Arc::default(),
            parsed: OnceLock::new(),
            written_tree: WrittenTree::default(),
        }
    }
}

impl Object {
    /// The tree. The first caller after a recent write gets the tree that was written, without parsing.
    pub(crate) fn tree(&self) -> Value {
        self.written_tree.take_or_parse(&self.json)
    }

    /// The tree, kept from the first use on. Only for the few objects that many requests read, such as a namespace's
    /// quotas: a tree is several times as large as its text.
    pub(crate) fn parsed(&self) -> &Value {
        self.parsed.get_or_init(|| Box::new(self.tree()))
    }

    /// The text as a list item, which has no kind and apiVersion, without its opening brace.
    pub(crate) fn item_rest(&self) -> &[u8] {
        &self.json[self.head as usize + 1..]
    }

    /// The same version of the object with another text.
    pub(crate) fn with_text(&self, json: Bytes, head: u32, revision_at: u32) -> Object {
        Object {
            key: self.key.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            revision: self.revision,
            json,
            head,
            revision_at,
            is_foreign: false,
            grown: None,
            is_stale: self.is_stale,
            projection: self.projection.clone(),
            parsed: OnceLock::new(),
            written_tree: WrittenTree::default(),
        }
    }

    /// The same object as of another revision, for its text to be encoded again.
    pub(crate) fn at(self, revision: u64) -> Object {
        Object { revision, ..self }
    }

    /// The text with another revision: a deletion shows the removed object at the revision of the deletion.
    pub(crate) fn json_at(&self, revision: u64) -> Bytes {
        let len = itoa::Buffer::new().format(self.revision).len();
        splice(&self.json, self.revision_at as usize, len, revision).into()
    }
}
