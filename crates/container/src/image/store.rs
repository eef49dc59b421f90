//! The store: content, layers and names under one root.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use corten_base::files;

use super::index::IndexFile;
use super::manifest::{check_one_kind, document};
use super::snapshot::Layers;
use super::*;

#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    pub(crate) content: Content,
    pub(super) index: IndexFile,
    limits: Limits,
}

/// Held while content is imported and not yet referred to: meanwhile nothing is swept.
pub(crate) struct Incoming(#[expect(dead_code, reason = "holds the lock until it is dropped")] File);

impl Store {
    /// Opens or creates the store at `root`.
    pub fn open(root: impl Into<PathBuf>) -> Result<Store, ImageError> {
        let root = root.into();
        files::private_directory(&root).at("create", &root)?;
        let content = Content::open(&root)?;
        for folder in ["layers", "pins"] {
            let path = root.join(folder);
            files::private_directory(&path).at("create", path)?;
        }
        let index = IndexFile::new(&root);
        // Narrows the file's mode; an unreadable index is reported by the first use.
        let _ = index.read(|_| ());
        content.clear_ingest()?;
        Ok(Store { root, content, index, limits: Limits::default() })
    }

    /// With other limits on images.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Store {
        Store { limits, ..self }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Every image with its names.
    pub fn images(&self) -> Result<Vec<Named>, ImageError> {
        self.index.read(|index| index.images.values().map(|image| index.named(image)).collect())
    }

    /// An image by name, digest, id, or the beginning of an id.
    pub fn find(&self, name: &str) -> Result<Option<Named>, ImageError> {
        self.index.read(|index| index.find(name).map(|image| index.named(image)))
    }

    pub(crate) fn incoming(&self) -> Result<Incoming, ImageError> {
        let lock = self.content_lock()?;
        lock.lock_shared().at("lock", &self.root)?;
        Ok(Incoming(lock))
    }

    /// Unpacks an image whose content is in the store and gives it names. The target is a manifest or an index.
    pub(crate) fn add(
        &self,
        target: &Descriptor,
        names: &[Reference],
        platform: &Platform,
        _incoming: &Incoming,
    ) -> Result<Record, ImageError> {
        let mut blobs = vec![target.digest.clone()];
        let mut bytes = self.content.read(&target.digest)?;
        let mut manifest_digest = target.digest.clone();
        let mut size = bytes.len() as u64;
        check_one_kind(&bytes)?;
        while let Some(index) = index_in(&bytes, &target.media_type) {
            if blobs.len() > MOST_INDEXES {
                return Err(ImageError::Malformed(
                    "the indexes of the image are nested too deeply".to_owned(),
                ));
            }
            let chosen = index.choose(platform)?;
            manifest_digest = chosen.digest.clone();
            blobs.push(chosen.digest.clone());
            bytes = self.content.read(&chosen.digest)?;
            check_one_kind(&bytes)?;
            size += bytes.len() as u64;
        }
        let manifest: Manifest = document(&bytes, "the manifest")?;
        let config: Config =
            document(&self.content.read(&manifest.config.digest)?, "the image's configuration")?;
        let root = self.root.join("layers");
        let layers = Layers { root: &root, index: &self.index, content: &self.content, limits: self.limits };
        let chain = layers.unpack(&manifest, &config)?;
        blobs.push(manifest.config.digest.clone());
        blobs.extend(manifest.layers.iter().map(|layer| layer.digest.clone()));
        let described = std::iter::once(&manifest.config).chain(&manifest.layers);
        size = described.fold(size, |size, blob| size.saturating_add(blob.size));
        let record = Record {
            id: manifest.config.digest.clone(),
            target: target.digest.clone(),
            manifest: manifest_digest,
            blobs,
            chain,
            size,
            process: config.config,
        };
        self.index.update(|index| {
            index.images.insert(record.id.clone(), record.clone());
            for name in names {
                if name.tag.is_some() {
                    let tagged = Reference { digest: None, ..name.clone() };
                    index.names.insert(tagged.to_string(), record.id.clone());
                }
                index.names.insert(name.by_digest(&target.digest), record.id.clone());
            }
            Ok(())
        })?;
        Ok(record)
    }

    /// Removes one name, and the image with its last tag.
    pub fn untag(&self, name: &str) -> Result<(), ImageError> {
        let tagged = name.parse::<Reference>().ok().map(|name| name.to_string());
        let last = self.index.update(|index| {
            let Some(image) = index.find(name).cloned() else {
                return Err(ImageError::NotFound(name.to_owned()));
            };
            let tags = index.named(&image).tags;
            Ok(!tags.iter().any(|tag| Some(tag) != tagged.as_ref())
                || tagged.is_none_or(|t| !tags.contains(&t)))
        })?;
        if last {
            return self.remove(name);
        }
        self.index.update(|index| {
            if let Ok(name) = name.parse::<Reference>() {
                index.names.remove(&name.to_string());
            }
            Ok(())
        })
    }

    /// Removes an image with all its names, unless a container uses it.
    pub fn remove(&self, name: &str) -> Result<(), ImageError> {
        self.index.update(|index| {
            let Some(id) = index.find(name).map(|image| image.id.clone()) else { return Ok(()) };
            if let Some(container) = self.user_of(&id)? {
                return Err(ImageError::InUse { image: name.to_owned(), container });
            }
            index.names.retain(|_, to| *to != id);
            index.images.remove(&id);
            Ok(())
        })?;
        self.sweep()
    }

    /// Records that a container uses an image, until it is unpinned.
    pub(crate) fn pin(&self, container: &str, image: &Digest) -> Result<(), ImageError> {
        let path = self.root.join("pins").join(container);
        std::os::unix::fs::symlink(image.to_string(), &path).at("create", path)
    }

    pub(crate) fn unpin(&self, container: &str) -> Result<(), ImageError> {
        let path = self.root.join("pins").join(container);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
            _ => Ok(()),
        }
    }

    fn user_of(&self, image: &Digest) -> Result<Option<String>, ImageError> {
        let folder = self.root.join("pins");
        for entry in fs::read_dir(&folder).at("list", &folder)? {
            let entry = entry.at("list", &folder)?;
            let pinned = fs::read_link(entry.path());
            if pinned.is_ok_and(|pinned| pinned.as_os_str() == image.to_string().as_str()) {
                return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }

    /// The folder of layers, and an image's layers in it, the topmost first.
    pub(crate) fn layers_of(&self, image: &Record) -> Result<(PathBuf, Vec<String>), ImageError> {
        let folders = self.index.read(|index| {
            let numbers = image.chain.iter().rev().map(|id| index.layers.get(id).map(ToString::to_string));
            numbers.collect::<Option<Vec<String>>>()
        })?;
        let folders = folders.ok_or_else(|| ImageError::NotFound(image.id.to_string()))?;
        Ok((self.root.join("layers"), folders))
    }

    /// Removes content and layers that nothing refers to. While an import is running, it is left to the next sweep.
    fn sweep(&self) -> Result<(), ImageError> {
        let lock = self.content_lock()?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        let gone = self.index.update(|index| {
            let chains: BTreeSet<&Digest> = index.images.values().flat_map(|image| &image.chain).collect();
            let unused = |id: &&Digest| !chains.contains(*id);
            let ids: Vec<Digest> = index.layers.keys().filter(unused).cloned().collect();
            Ok(ids.iter().filter_map(|id| index.layers.remove(id)).collect::<Vec<u64>>())
        })?;
        for number in gone {
            let folder = self.root.join("layers").join(number.to_string());
            fs::remove_dir_all(&folder).at("remove", folder)?;
        }
        let live: BTreeSet<Digest> =
            self.index.read(|index| index.images.values().flat_map(|image| image.blobs.clone()).collect())?;
        for digest in self.content.all()?.iter().filter(|digest| !live.contains(digest)) {
            self.content.remove(digest)?;
        }
        Ok(())
    }

    fn content_lock(&self) -> Result<File, ImageError> {
        let path = self.root.join("content.lock");
        files::create_private(&path).at("open", path)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

/// The index in a document, if it is one.
pub(crate) fn index_in(bytes: &[u8], media_type: &str) -> Option<Index> {
    let index: Index = serde_json::from_slice(bytes).ok()?;
    (media::is_index(media_type) || media::is_index(&index.media_type) || index.media_type.is_empty())
        .then_some(index)
}
