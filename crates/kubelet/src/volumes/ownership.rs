//! Volumes that a pod's group owns: everything in them, and what comes into them later.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use corten_api::Value;

use crate::pod::Pod;

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const SEARCH: u32 = 0o110;
const SET_GROUP: u32 = 0o2000;

/// What a pod says of the group of its volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ownership {
    group: u32,
    /// Leave everything as it is if the volume's root is as it should be.
    on_root_mismatch: bool,
}

impl Ownership {
    pub(super) fn of(pod: &Pod) -> Option<Ownership> {
        let security: &Value = pod.tree().at(&["spec", "securityContext"])?;
        let group = security.int_at(&["fsGroup"]).and_then(|group| u32::try_from(group).ok())?;
        let on_root_mismatch = security.str_at(&["fsGroupChangePolicy"]) == Some("OnRootMismatch");
        Some(Ownership { group, on_root_mismatch })
    }

    /// Gives a volume to the group, to write or only to read.
    pub(super) fn give(self, volume: &Path, read_only: bool) -> io::Result<()> {
        if self.on_root_mismatch && self.holds(volume, read_only) {
            return Ok(());
        }
        self.give_all(volume, read_only)
    }

    fn holds(self, root: &Path, read_only: bool) -> bool {
        let Ok(metadata) = std::fs::metadata(root) else { return false };
        let needed = SET_GROUP | SEARCH | if read_only { READ_ONLY } else { READ_WRITE };
        metadata.is_dir() && metadata.gid() == self.group && metadata.mode() & needed == needed
    }

    fn give_all(self, path: &Path, read_only: bool) -> io::Result<()> {
        lchown(path, None, Some(self.group))?;
        let metadata = std::fs::symlink_metadata(path)?;
        if metadata.is_symlink() {
            return Ok(());
        }
        let mut mode = metadata.mode() & 0o7777 | if read_only { READ_ONLY } else { READ_WRITE };
        if metadata.is_dir() {
            mode |= SEARCH | SET_GROUP;
            for entry in std::fs::read_dir(path)? {
                self.give_all(&entry?.path(), read_only)?;
            }
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_is_right_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let look = || {
            let metadata = std::fs::metadata(&file).unwrap();
            (metadata.gid(), metadata.mode() & 0o7777)
        };
        let always = Ownership { group: 4711, on_root_mismatch: false };
        let mismatch = Ownership { on_root_mismatch: true, ..always };
        mismatch.give(folder.path(), false).unwrap();
        assert_eq!(look(), (4711, 0o664));
        let root = std::fs::metadata(folder.path()).unwrap();
        assert_eq!((root.gid(), root.mode() & 0o2070), (4711, 0o2070));
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        mismatch.give(folder.path(), false).unwrap();
        assert_eq!(look(), (4711, 0o600));
        always.give(folder.path(), true).unwrap();
        assert_eq!(look(), (4711, 0o640));
    }
}
