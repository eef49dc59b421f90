//! `hostPath`: a path of the node itself, whose type is checked against what the pod says.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use corten_api::Value;
use corten_base::files;

use super::{Plugin, Volume, VolumePath};
use crate::volumes::VolumeError;

pub(super) const PLUGIN: Plugin =
    Plugin { field: "hostPath", set_up: |volume| Box::pin(async move { set_up(volume) }) };

/// The hostPath is invalid or not of the requested type; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostPathError {
    #[error("invalid HostPath `{0}`: must not contain '..'")]
    Backwards(String),
    #[error("{0} is an invalid volume type")]
    UnknownType(String),
    #[error("hostPath type check failed: {path} is not a {expected}, it's a {found}")]
    WrongType { path: String, expected: &'static str, found: &'static str },
    #[error("hostPath type check failed, {path} is not a {expected}, unable to determine its type: {err}")]
    UnknownFile { path: String, expected: &'static str, err: FileTypeError },
    #[error(transparent)]
    Create(io::Error),
}

/// The type of a file could not be determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileTypeError {
    #[error("path {0:?} does not exist")]
    NotFound(String),
    #[error(transparent)]
    Io(io::Error),
}

fn set_up(volume: Volume<'_>) -> Result<VolumePath, VolumeError> {
    Ok(VolumePath::writable(check(volume.source)?))
}

/// Checks that a path of the node has the type that the pod names, and creates it if the type says so.
pub(super) fn check(source: &Value) -> Result<PathBuf, HostPathError> {
    let path = PathBuf::from(source.str_at(&["path"]).unwrap_or_default());
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(HostPathError::Backwards(path.display().to_string()));
    }
    let kind = source.str_at(&["type"]).unwrap_or_default();
    create(&path, kind).map_err(HostPathError::Create)?;
    let expected = match kind {
        "" => return Ok(path),
        "Directory" | "DirectoryOrCreate" => ("Directory", "directory"),
        "File" | "FileOrCreate" => ("File", "file"),
        "Socket" => ("Socket", "socket file"),
        "CharDevice" => ("CharDevice", "character device"),
        "BlockDevice" => ("BlockDevice", "block device"),
        other => return Err(HostPathError::UnknownType(other.to_owned())),
    };
    let shown = path.display().to_string();
    match found(&path) {
        Ok(found) if found == expected.0 => Ok(path),
        Ok(found) => Err(HostPathError::WrongType { path: shown, expected: expected.1, found }),
        Err(err) => Err(HostPathError::UnknownFile { path: shown, expected: expected.1, err }),
    }
}

/// Creates a missing path if its type says so; a directory by default.
fn create(path: &Path, kind: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    match kind {
        "" | "DirectoryOrCreate" => files::directories(path, 0o755),
        // Only a file that was not there: another pod may have the folder, and put a link here just now.
        "FileOrCreate" => files::create_new(path, 0o644),
        _ => Ok(()),
    }
}

/// The type of the file at a path.
fn found(path: &Path) -> Result<&'static str, FileTypeError> {
    let metadata: Metadata = match std::fs::metadata(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            return Err(FileTypeError::NotFound(path.display().to_string()));
        }
        other => other.map_err(FileTypeError::Io)?,
    };
    let kind = metadata.file_type();
    Ok(match () {
        () if kind.is_dir() => "Directory",
        () if kind.is_file() => "File",
        () if kind.is_socket() => "Socket",
        () if kind.is_char_device() => "CharDevice",
        () if kind.is_block_device() => "BlockDevice",
        () => "",
    })
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn what_is_there_has_to_be_what_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let check = |path: &str, kind: &str| {
            check(&value!({"path": (path), "type": (kind)})).map(drop).map_err(|err| err.to_string())
        };
        std::fs::write(at("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (path, kind) in [
            (at(""), "Directory"),
            (at("file"), "File"),
            (at("socket"), "Socket"),
            ("/dev/null".to_owned(), "CharDevice"),
            (at("new/folder"), "DirectoryOrCreate"),
            (at("new/file"), "FileOrCreate"),
            (at("anything"), ""),
        ] {
            assert_eq!(check(&path, kind), Ok(()), "{path} {kind}");
        }
        assert!(Path::new(&at("anything")).is_dir());
        let file = at("file");
        assert_eq!(
            check(&file, "DirectoryOrCreate"),
            Err(format!("hostPath type check failed: {file} is not a directory, it's a File"))
        );
        let none = at("none");
        assert_eq!(
            check(&none, "Socket"),
            Err(format!(
                "hostPath type check failed, {none} is not a socket file, unable to determine its type: path {none:?} does not exist"
            ))
        );
        assert!(check("/a/../b", "").is_err());
    }

    /// A link to nowhere, which a pod that has the folder put there, is not followed to make something elsewhere.
    #[test]
    fn nothing_is_made_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let (link, outside) = (folder.path().join("link"), folder.path().join("outside"));
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        for kind in ["FileOrCreate", "DirectoryOrCreate", ""] {
            let source = value!({"path": (link.display().to_string()), "type": (kind)});
            assert!(check(&source).is_err(), "{kind}");
            assert!(!outside.exists(), "{kind}");
        }
    }
}
