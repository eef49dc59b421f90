//! The folders of logs, `<logs>/<pod>/<container>`.
//!
//! A pod may mount the folder of all logs and replace any folder in it with a link. So no link below it is followed,
//! and a folder is used through its descriptor once it was opened.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use corten_base::files;
use corten_sys::rooted::{Links, Root};

/// Creates a folder whose last `own` components are in the folder of all logs; only root and its group may enter it.
pub(super) fn folder(path: &Path, own: usize) -> io::Result<()> {
    let logs = path.ancestors().nth(own).ok_or(io::ErrorKind::InvalidInput)?;
    let within = path.strip_prefix(logs).map_err(io::Error::other)?;
    // A path of the node.
    files::directories(logs, 0o755)?;
    let made = Root::open(logs)?.directory(&within.to_string_lossy(), Links::Refused)?;
    // A path of the node, in procfs: that of a descriptor.
    files::group_directory(&PathBuf::from(format!("/proc/self/fd/{}", made.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_are_not_followed() {
        let node = tempfile::tempdir().unwrap();
        let (logs, outside) = (node.path().join("logs"), node.path().join("outside"));
        folder(&logs.join("pod"), 1).unwrap();
        folder(&logs.join("pod/container"), 2).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&outside, logs.join("link")).unwrap();
        symlink(&outside, logs.join("pod/link")).unwrap();
        assert!(folder(&logs.join("link"), 1).is_err());
        assert!(folder(&logs.join("link/container"), 2).is_err());
        assert!(folder(&logs.join("pod/link"), 2).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(logs.join("pod/container")).unwrap().permissions().mode() & 0o777, 0o750);
    }
}
