//! Blobs by digest: `blobs/sha256/<hex>`, the layout of an OCI image directory.
//!
//! *Invariant:* the file at a digest's path has that digest and is synced to disk. Content is written elsewhere,
//! checked, synced and only then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use corten_base::files;

use super::{At, Digest, ImageError, LARGEST_DOCUMENT, Verified};

#[derive(Debug, Clone)]
pub(crate) struct Content {
    root: PathBuf,
}

/// Content that is being written. It is removed if it is dropped before the commit.
pub(crate) struct Ingest {
    file: Option<Verified<File>>,
    path: PathBuf,
    root: PathBuf,
}

impl Content {
    pub(crate) fn open(root: &Path) -> Result<Content, ImageError> {
        for folder in ["blobs/sha256", "ingest"] {
            let path = root.join(folder);
            files::private_directory(&path).at("create", path)?;
        }
        Ok(Content { root: root.to_owned() })
    }

    pub(crate) fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.path(digest).exists()
    }

    pub(crate) fn reader(&self, digest: &Digest) -> Result<File, ImageError> {
        File::open(self.path(digest)).at("open", self.path(digest))
    }

    /// A document as a whole.
    pub(crate) fn read(&self, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let path = self.path(digest);
        let mut reader = self.reader(digest)?.take(LARGEST_DOCUMENT + 1);
        reader.read_to_end(&mut bytes).at("read", path)?;
        if bytes.len() as u64 > LARGEST_DOCUMENT {
            let text = format!("{digest} is larger than any document may be: {LARGEST_DOCUMENT} bytes");
            return Err(ImageError::Malformed(text));
        }
        Ok(bytes)
    }

    pub(crate) fn ingest(&self) -> Result<Ingest, ImageError> {
        let name = format!("{}-{:016x}", std::process::id(), unique());
        let path = self.root.join("ingest").join(name);
        let file = files::open_private(OpenOptions::new().write(true).create_new(true), &path);
        let file = file.at("create", &path)?;
        Ok(Ingest { file: Some(Verified::new(file)), path, root: self.root.clone() })
    }

    /// Writes content; `wanted` is the digest it must have.
    pub(crate) fn add(
        &self,
        mut from: impl Read,
        wanted: Option<&Digest>,
    ) -> Result<(Digest, u64), ImageError> {
        let mut ingest = self.ingest()?;
        io::copy(&mut from, &mut ingest).at("write", &ingest.path)?;
        ingest.commit(wanted)
    }

    pub(crate) fn remove(&self, digest: &Digest) -> Result<(), ImageError> {
        match fs::remove_file(self.path(digest)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).at("remove", self.path(digest))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn all(&self) -> Result<Vec<Digest>, ImageError> {
        let folder = self.root.join("blobs/sha256");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).at("list", &folder)? {
            let name = entry.at("list", &folder)?.file_name();
            found.extend(format!("sha256:{}", name.to_string_lossy()).parse().ok());
        }
        Ok(found)
    }

    /// Removes incomplete content of processes that no longer run.
    pub(crate) fn clear_ingest(&self) -> Result<(), ImageError> {
        let folder = self.root.join("ingest");
        for entry in fs::read_dir(&folder).at("list", &folder)? {
            let entry = entry.at("list", &folder)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let writer = name.split('-').next().unwrap_or_default().to_owned();
            if !Path::new("/proc").join(writer).exists() {
                fs::remove_file(entry.path()).at("remove", entry.path())?;
            }
        }
        Ok(())
    }
}

impl Ingest {
    /// Moves the content to its digest's path, if it has the wanted digest.
    pub(crate) fn commit(mut self, wanted: Option<&Digest>) -> Result<(Digest, u64), ImageError> {
        let Some(file) = self.file.take() else {
            return Err(ImageError::Malformed("content was committed twice".to_owned()));
        };
        file.get_ref().sync_data().at("sync", &self.path)?;
        let (found, size) = file.finish();
        if let Some(wanted) = wanted.filter(|wanted| **wanted != found) {
            return Err(ImageError::WrongContent { wanted: wanted.to_string(), found: found.to_string() });
        }
        let place = self.root.join("blobs/sha256").join(found.hex());
        fs::rename(&self.path, &place).at("move", &place)?;
        Ok((found, size))
    }
}

impl Write for Ingest {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        // After a commit there is nothing to remove; otherwise the next start removes the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// A number that is unique within this process.
pub(crate) fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
