//! The content of files inside roots that are not trusted: regular files only, and only up to a length.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use crate::rooted::{Links, Root};

/// Reads a regular file; one that is longer than `limit` is an error. Nothing else is opened: that could block, or do anything.
pub fn read(root: &Root, path: &str, links: Links, limit: u64) -> io::Result<Vec<u8>> {
    let looked_at = File::from(root.find(path, links)?).metadata()?;
    if !looked_at.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::from(root.open_with(path, links, 0)?);
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (looked_at.dev(), looked_at.ino()) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::rooted::make_node;

    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/file"), "inside").unwrap();
        symlink("/etc/file", folder.path().join("link")).unwrap();
        symlink("/etc/passwd", folder.path().join("out")).unwrap();
        let root = Root::open(folder.path()).unwrap();
        let read = |path, limit| read(&root, path, Links::Inside, limit);
        assert!(read("etc", 100).is_err());
        assert!(read("out", 100).is_err(), "the node's file is not read");
        assert_eq!(read("link", 6).unwrap(), b"inside");
        assert_eq!(read("etc/file", 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let etc = root.directory("etc", Links::Refused).unwrap();
        make_node(&etc, "fifo", 0o010_644, 0, 0).unwrap();
        assert!(read("etc/fifo", 100).is_err(), "a FIFO is not opened: that would block");
        File::create(folder.path().join("huge")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read("huge", 1 << 20).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
