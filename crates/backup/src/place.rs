//! The places that hold archives: a directory, or a folder of a bucket.
//!
//! Invariants: an archive appears under its name whole or not at all; in a directory its file is for the owner only, and so is the
//! directory. An archive never replaces another, and only archives are listed and removed.

mod directory;

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::archive::{ArchiveError, Header};
use crate::s3::Bucket;
use crate::{Name, S3Error, S3Options};
use directory::Directory;

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    S3(#[from] S3Error),
    #[error("cannot use {}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} holds other files and is open to other users; choose another directory", .0.display())]
    Shared(PathBuf),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// An archive of a place.
#[derive(Clone, Debug)]
pub struct Stored {
    pub name: Name,
    pub bytes: u64,
}

pub struct Place(Kind);

enum Kind {
    Directory(Directory),
    Bucket(Box<Bucket>),
}

/// True if a place is a bucket, which needs settings.
pub fn is_bucket(location: &str) -> bool {
    location.starts_with("s3://")
}

impl Place {
    /// A directory that exists or is created when it is written to.
    pub fn directory(path: &Path) -> Place {
        Place(Kind::Directory(Directory::new(path)))
    }

    /// The folder of `s3://BUCKET/PREFIX`.
    pub fn bucket(location: &str, options: &S3Options) -> Result<Place, PlaceError> {
        let location = location.strip_prefix("s3://").unwrap_or(location);
        Ok(Place(Kind::Bucket(Box::new(Bucket::open(location, options)?))))
    }

    /// The path at which an archive is written before it is [`Place::put`]; `spool` is a directory for it.
    pub fn draft(&self, name: &Name, spool: &Path) -> Result<PathBuf, PlaceError> {
        match &self.0 {
            Kind::Directory(directory) => directory.draft(name),
            Kind::Bucket(_) => Directory::new(spool).draft(name),
        }
    }

    /// Stores a finished draft, which is gone afterwards, also if this fails.
    pub async fn put(&self, name: &Name, draft: &Path, sha256: [u8; 32]) -> Result<(), PlaceError> {
        let stored = match &self.0 {
            Kind::Directory(directory) => directory.put(name, draft),
            Kind::Bucket(bucket) => {
                bucket.put(&name.to_string(), draft, sha256).await.map_err(PlaceError::from)
            }
        };
        // A draft that was stored in a directory has its name already.
        let _ = std::fs::remove_file(draft);
        stored
    }

    /// All archives, oldest first in each set.
    pub async fn list(&self) -> Result<Vec<Stored>, PlaceError> {
        let named = match &self.0 {
            Kind::Directory(directory) => directory.list()?,
            Kind::Bucket(bucket) => bucket.list().await?,
        };
        let ours = named.into_iter();
        let ours = ours.filter_map(|(name, bytes)| Some(Stored { name: Name::parse(&name)?, bytes }));
        let mut stored: Vec<Stored> = ours.collect();
        stored.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(stored)
    }

    /// The header of an archive.
    pub async fn header(&self, name: &Name) -> Result<Header, PlaceError> {
        let beginning: Bytes = match &self.0 {
            Kind::Directory(directory) => directory.beginning(name, Header::BYTES)?.into(),
            Kind::Bucket(bucket) => bucket.beginning(&name.to_string(), Header::BYTES).await?,
        };
        Ok(Header::parse(&beginning)?)
    }

    /// A file with the archive: its own, or a copy at `copy`, whose directory is private.
    pub async fn fetch(&self, name: &Name, copy: &Path) -> Result<PathBuf, PlaceError> {
        match &self.0 {
            Kind::Directory(directory) => Ok(directory.path(name)),
            Kind::Bucket(bucket) => {
                bucket.get(&name.to_string(), copy).await?;
                Ok(copy.to_owned())
            }
        }
    }

    pub async fn remove(&self, name: &Name) -> Result<(), PlaceError> {
        match &self.0 {
            Kind::Directory(directory) => directory.remove(name),
            Kind::Bucket(bucket) => Ok(bucket.delete(&name.to_string()).await?),
        }
    }
}
