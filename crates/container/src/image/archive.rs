//! Archives of images, as `docker save` and OCI tools write them.
//!
//! An archive is read once, front to back, so that it can be a stream: every file in it goes into the content store,
//! and the files are interpreted at the end. Files without a meaning are removed by the next sweep.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};

use super::limits::{Counted, Proportionate};
use super::manifest::document;
use super::unpack::{Archive, Compression, decompressed};
use super::*;

/// Maximum number of files of an image archive: their paths are kept until all of it is read.
const MOST_FILES: u64 = 20_000;

/// An image of an imported archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub id: Digest,
    pub names: Vec<String>,
}

/// An imported archive of a folder, and its images.
#[derive(Debug)]
pub struct ImportedFile {
    pub path: PathBuf,
    pub images: Result<Vec<Imported>, ImageError>,
}

/// One image of a Docker archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Vec<String>,
}

/// The files of an archive by path.
#[derive(Default)]
struct Files {
    blobs: BTreeMap<String, (Digest, u64)>,
    /// Older Docker archives link layers that are the same.
    links: BTreeMap<String, String>,
}

pub(super) const NAME: &str = "io.containerd.image.name";
pub(super) const REF_NAME: &str = "org.opencontainers.image.ref.name";

impl Store {
    /// Imports every image of an archive, compressed or not.
    pub fn import(&self, archive: impl Read + Send) -> Result<Vec<Imported>, ImageError> {
        let incoming = self.incoming()?;
        let files = self.take_in(archive)?;
        let images = match files.blob("index.json") {
            Some((index, _)) if files.blob("oci-layout").is_some() => self.oci_images(&files, index)?,
            _ => self.docker_images(&files)?,
        };
        if images.is_empty() {
            return Err(ImageError::Malformed("the archive contains no image".to_owned()));
        }
        let mut imported = Vec::new();
        for (target, names) in images {
            let record = self.add(&target, &names, &Platform::here(), &incoming)?;
            imported.push(Imported { id: record.id, names: names.iter().map(ToString::to_string).collect() });
        }
        Ok(imported)
    }

    /// Imports every archive of a folder that was not imported before or has changed since. An invalid archive does not
    /// keep the others from being imported.
    pub fn import_folder(&self, folder: &Path) -> Result<Vec<ImportedFile>, ImageError> {
        let mut imported = Vec::new();
        let mut files = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(imported),
            other => other.at("list", folder)?.collect::<io::Result<Vec<_>>>().at("list", folder)?,
        };
        files.sort_by_key(fs::DirEntry::file_name);
        for path in files.iter().map(fs::DirEntry::path).filter(|path| is_archive(path)) {
            let stamp = stamp(&path).at("read", &path)?;
            let name = path.to_string_lossy().into_owned();
            if self.index.read(|index| index.archives.get(&name) == Some(&stamp))? {
                continue;
            }
            let images = fs::File::open(&path).at("open", &path).and_then(|file| self.import(file));
            if images.is_ok() {
                self.index.update(|index| {
                    index.archives.insert(name, stamp);
                    Ok(())
                })?;
            }
            imported.push(ImportedFile { path, images });
        }
        Ok(imported)
    }

    fn take_in(&self, archive: impl Read + Send) -> Result<Files, ImageError> {
        let packed = Arc::new(AtomicU64::new(0));
        let stream = decompressed(Counted { from: archive, bytes: packed.clone() }, &self.limits());
        let stream = stream.at("read", "the archive")?;
        let stream = Proportionate::new(stream, self.limits(), packed);
        let mut archive = Archive::new(io::BufReader::with_capacity(1 << 18, stream), MOST_FILES);
        let mut files = Files::default();
        while let Some(entry) = archive.next().at("read", "the archive")? {
            let path = OsString::from_vec(entry.path);
            let Some(path) = within(Path::new(""), Path::new(&path)) else { continue };
            let kind = entry.kind;
            if kind.is_file() {
                files.blobs.insert(path, self.content.add(archive.content(), None)?);
            } else if kind.is_symlink() || kind.is_hard_link() {
                let target = OsString::from_vec(entry.link.unwrap_or_default());
                let base = if kind.is_symlink() { Path::new(&path).parent() } else { None };
                if let Some(target) = within(base.unwrap_or(Path::new("")), Path::new(&target)) {
                    files.links.insert(path.clone(), target);
                }
            }
        }
        Ok(files)
    }

    fn oci_images(
        &self,
        files: &Files,
        index: &Digest,
    ) -> Result<Vec<(Descriptor, Vec<Reference>)>, ImageError> {
        let index: Index = document(&self.content.read(index)?, "index.json")?;
        if let Some(missing) = index.manifests.iter().find(|blob| !self.content.has(&blob.digest)) {
            let text = format!("the archive refers to {} but does not contain it", missing.digest);
            return Err(ImageError::Malformed(text));
        }
        let saved = self.saved(files)?;
        let mut images = Vec::new();
        for mut target in index.manifests {
            let named = target.annotations.get(NAME).or_else(|| {
                // A bare tag names no repository.
                target.annotations.get(REF_NAME).filter(|name| name.contains(['/', ':']))
            });
            let mut names: Vec<Reference> = named.iter().filter_map(|name| name.parse().ok()).collect();
            if names.is_empty() && images.is_empty() {
                names = saved.first().map(tags).unwrap_or_default();
            }
            target.annotations.clear();
            images.push((target, names));
        }
        Ok(images)
    }

    fn saved(&self, files: &Files) -> Result<Vec<Saved>, ImageError> {
        match files.blob("manifest.json") {
            Some((saved, _)) => document(&self.content.read(saved)?, "manifest.json"),
            None => Ok(Vec::new()),
        }
    }

    fn docker_images(&self, files: &Files) -> Result<Vec<(Descriptor, Vec<Reference>)>, ImageError> {
        let mut images = Vec::new();
        for saved in self.saved(files)? {
            let find = |path: &String| {
                let missing = || {
                    ImageError::Malformed(format!("the archive refers to {path:?} but does not contain it"))
                };
                files.blob(path).ok_or_else(missing)
            };
            let layers = saved.layers.iter().map(|layer| self.layer(find(layer)?));
            let (config, size) = find(&saved.config)?;
            let manifest = Manifest {
                schema_version: 2,
                media_type: media::OCI_MANIFEST.to_owned(),
                config: descriptor(media::OCI_CONFIG, config, *size),
                layers: layers.collect::<Result<_, _>>()?,
            };
            let text =
                serde_json::to_vec(&manifest).map_err(|error| ImageError::Malformed(error.to_string()))?;
            let (digest, size) = self.content.add(text.as_slice(), None)?;
            images.push((descriptor(media::OCI_MANIFEST, &digest, size), tags(&saved)));
        }
        Ok(images)
    }

    fn layer(&self, (digest, size): &(Digest, u64)) -> Result<Descriptor, ImageError> {
        let mut head = Vec::new();
        self.content.reader(digest)?.take(4).read_to_end(&mut head).at("read", self.content.path(digest))?;
        let media_type = match Compression::of(&head) {
            Compression::None => media::OCI_LAYER.to_owned(),
            Compression::Gzip => media::OCI_LAYER_GZIP.to_owned(),
            Compression::Zstd => format!("{}+zstd", media::OCI_LAYER),
        };
        Ok(descriptor(&media_type, digest, *size))
    }
}

impl Files {
    fn blob(&self, path: &str) -> Option<&(Digest, u64)> {
        self.blobs.get(path).or_else(|| self.blobs.get(self.links.get(path)?))
    }
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|ending| name.ends_with(ending))
}

/// Distinguishes a file from an earlier one at the same path.
fn stamp(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let data = fs::metadata(path)?;
    Ok(format!("{} {}.{}", data.size(), data.mtime(), data.mtime_nsec()))
}

fn tags(saved: &Saved) -> Vec<Reference> {
    saved.repo_tags.iter().flatten().filter_map(|tag| tag.parse().ok()).collect()
}

pub(super) fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.clone(),
        size,
        platform: None,
        annotations: BTreeMap::new(),
    }
}

/// A normalized path of the archive; `None` if it leads out of the archive.
fn within(base: &Path, path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in base.components().chain(path.components()) {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            _ => {}
        }
    }
    Some(parts.join("/"))
}
