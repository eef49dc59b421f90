//! A directory of archives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use corten_base::files;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::PlaceError;
use crate::Name;

/// The suffix of archives that are being written.
const DRAFT: &str = ".unfinished";

pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new(path: &Path) -> Directory {
        Directory { path: path.into() }
    }

    fn failed(&self) -> impl Fn(io::Error) -> PlaceError + '_ {
        |source| PlaceError::Directory { path: self.path.clone(), source }
    }

    pub(super) fn path(&self, name: &Name) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// The path of a draft, in a directory that is private; drafts that a crash left are removed.
    pub(super) fn draft(&self, name: &Name) -> Result<PathBuf, PlaceError> {
        if let Ok(found) = fs::metadata(&self.path) {
            let is_open = found.permissions().mode() & 0o077 != 0;
            let has_others = || self.names().map(|names| names.iter().any(|name| !is_ours(name)));
            if is_open && has_others()? {
                return Err(PlaceError::Shared(self.path.clone()));
            }
        }
        files::private_directory(&self.path).map_err(self.failed())?;
        let draft = format!("{name}{DRAFT}");
        for left in self.names()?.iter().filter(|left| is_draft_of(left, name.set())) {
            let _ = fs::remove_file(self.path.join(left));
        }
        Ok(self.path.join(draft))
    }

    pub(super) fn put(&self, name: &Name, draft: &Path) -> Result<(), PlaceError> {
        let put = || {
            File::open(draft)?.sync_all()?;
            renameat_with(CWD, draft, CWD, self.path(name), RenameFlags::NOREPLACE)?;
            File::open(&self.path)?.sync_all()
        };
        put().map_err(self.failed())
    }

    pub(super) fn list(&self) -> Result<Vec<(String, u64)>, PlaceError> {
        let mut found = Vec::new();
        for name in self.names()? {
            let file = fs::symlink_metadata(self.path.join(&name)).map_err(self.failed())?;
            if file.is_file() {
                found.push((name, file.len()));
            }
        }
        Ok(found)
    }

    fn names(&self) -> Result<Vec<String>, PlaceError> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(self.failed())?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<Result<_, _>>().map_err(self.failed())
    }

    pub(super) fn beginning(&self, name: &Name, bytes: usize) -> Result<Vec<u8>, PlaceError> {
        let read = || {
            let file = files::open_private(OpenOptions::new().read(true), &self.path(name))?;
            let mut beginning = Vec::new();
            file.take(bytes as u64).read_to_end(&mut beginning)?;
            Ok(beginning)
        };
        read().map_err(self.failed())
    }

    pub(super) fn remove(&self, name: &Name) -> Result<(), PlaceError> {
        fs::remove_file(self.path(name)).map_err(self.failed())
    }
}

fn is_ours(name: &str) -> bool {
    Name::parse(name.strip_suffix(DRAFT).unwrap_or(name)).is_some()
}

/// True for a draft of a set, in which one archive is written at a time.
fn is_draft_of(name: &str, set: &str) -> bool {
    let of = name.strip_suffix(DRAFT).and_then(Name::parse);
    of.is_some_and(|name| name.set() == set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;

    fn name(second: i64) -> Name {
        Name::new("set", jiff::Timestamp::from_second(second).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_archive_appears_whole_and_replaces_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        let place = Place::directory(&path);
        assert!(place.list().await.unwrap().is_empty(), "there is no directory");
        let write = |second| {
            let draft = place.draft(&name(second), scratch.path()).unwrap();
            files::write_private(&draft, "content").unwrap();
            draft
        };
        let left = write(1);
        let draft = write(2);
        assert!(!left.exists(), "the draft that a crash left is gone");
        assert!(place.list().await.unwrap().is_empty(), "a draft is not listed");
        place.put(&name(2), &draft, [0; 32]).await.unwrap();
        assert!(place.put(&name(2), &write(2), [0; 32]).await.is_err(), "it exists");
        let found = place.list().await.unwrap();
        assert_eq!((found.len(), found[0].bytes, &found[0].name), (1, 7, &name(2)));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(&path.join(name(2).to_string()))), (0o700, 0o600));
        place.remove(&name(2)).await.unwrap();
        assert!(place.list().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_directory_of_others_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("home");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("photo"), "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let place = Place::directory(&path);
        assert!(matches!(place.draft(&name(1), scratch.path()), Err(PlaceError::Shared(_))));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
