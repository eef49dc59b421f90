//! The index of names, images and layers: one document, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use corten_base::files;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::manifest::document;
use super::{At, Digest, ImageError, Process, Reference};

/// Names, images and unpacked layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct IndexDocument {
    /// Full references, by tag or by digest, to image ids.
    pub(super) names: BTreeMap<String, Digest>,
    /// By image id: the digest of the configuration.
    pub(super) images: BTreeMap<Digest, Record>,
    /// Stacks of layers by chain id, and the folder of the topmost.
    pub(super) layers: BTreeMap<Digest, u64>,
    pub(super) next_layer: u64,
    /// Archives that were imported from a folder, and their stamps.
    pub(super) archives: BTreeMap<String, String>,
}

/// A complete and unpacked image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: Digest,
    /// The target of its names: the manifest, or the index it was chosen from.
    pub target: Digest,
    pub manifest: Digest,
    /// All of its blobs, including those above.
    pub blobs: Vec<Digest>,
    /// Chain ids, the lowest layer first.
    pub chain: Vec<Digest>,
    pub size: u64,
    pub process: Process,
}

/// An image and its full names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub record: Record,
    pub tags: Vec<String>,
    pub digests: Vec<String>,
}

/// The document's file, and its content as last read.
#[derive(Debug)]
pub(super) struct IndexFile {
    path: PathBuf,
    lock: PathBuf,
    read: Mutex<(Option<Stamp>, IndexDocument)>,
}

/// Identifies the file that was read. Every replacement has another stamp.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(u64, i64, i64, u64);

impl IndexDocument {
    /// An image by name, digest, id, or the beginning of an id.
    pub(super) fn find(&self, name: &str) -> Option<&Record> {
        if let Ok(id) = name.parse::<Digest>() {
            return self.images.get(&id).or_else(|| self.images.values().find(|image| image.target == id));
        }
        let named = name.parse::<Reference>().ok().and_then(|reference| {
            // With both, the digest decides.
            let by = match &reference.digest {
                Some(digest) => reference.by_digest(digest),
                None => reference.to_string(),
            };
            self.names.get(&by)
        });
        let id = named.or_else(|| self.by_prefix(name))?;
        self.images.get(id)
    }

    fn by_prefix(&self, prefix: &str) -> Option<&Digest> {
        let long_enough = prefix.len() >= 7 && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut found = self.images.keys().filter(|id| long_enough && id.hex().starts_with(prefix));
        found.next().filter(|_| found.next().is_none())
    }

    pub(super) fn named(&self, image: &Record) -> Named {
        let names = self.names.iter().filter(|(_, to)| **to == image.id).map(|(name, _)| name.clone());
        let (tags, digests) = names.partition(|name| !name.contains('@'));
        Named { record: image.clone(), tags, digests }
    }
}

impl IndexFile {
    pub(super) fn new(root: &Path) -> IndexFile {
        let read = Mutex::new((None, IndexDocument::default()));
        IndexFile { path: root.join("images.json"), lock: root.join("images.lock"), read }
    }

    pub(super) fn read<T>(&self, view: impl FnOnce(&IndexDocument) -> T) -> Result<T, ImageError> {
        let mut read = self.read.lock();
        let stamp = match fs::metadata(&self.path) {
            Ok(data) => Some(Stamp(data.ino(), data.mtime(), data.mtime_nsec(), data.size())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).at("read", &self.path),
        };
        if stamp != read.0 {
            let index = match &stamp {
                Some(_) => document(&self.text().at("read", &self.path)?, "the list of images")?,
                None => IndexDocument::default(),
            };
            *read = (stamp, index);
        }
        Ok(view(&read.1))
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        files::open_private(OpenOptions::new().read(true), &self.path)?.read_to_end(&mut text)?;
        Ok(text)
    }

    /// Changes the document; nothing is changed if `change` fails.
    pub(super) fn update<T>(
        &self,
        change: impl FnOnce(&mut IndexDocument) -> Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        let lock = files::create_private(&self.lock).at("open", &self.lock)?;
        lock.lock().at("lock", &self.lock)?;
        let before = self.read(IndexDocument::clone)?;
        let mut index = before.clone();
        let changed = change(&mut index)?;
        if index != before {
            self.replace(&index)?;
        }
        Ok(changed)
    }

    fn replace(&self, index: &IndexDocument) -> Result<(), ImageError> {
        let text = serde_json::to_vec(index).map_err(|error| ImageError::Malformed(error.to_string()))?;
        let new = self.path.with_extension("new");
        let mut file = files::create_private(&new).at("create", &new)?;
        file.write_all(&text).at("write", &new)?;
        file.sync_all().at("sync", &new)?;
        fs::rename(&new, &self.path).at("replace", &self.path)
    }
}
