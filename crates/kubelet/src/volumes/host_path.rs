//! Paths of the node itself. What is there is checked against what the pod says it is, in upstream's words.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use corten_api::Value;
use corten_base::files;

/// Sees to it that there is what the pod expects to find.
pub(super) fn check(source: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(source.str_at(&["path"]).unwrap_or_default());
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(format!("invalid HostPath `{}`: must not contain '..'", path.display()));
    }
    let kind = source.str_at(&["type"]).unwrap_or_default();
    make(&path, kind).map_err(|error| error.to_string())?;
    let expected = match kind {
        "" => return Ok(path),
        "Directory" | "DirectoryOrCreate" => ("Directory", "directory"),
        "File" | "FileOrCreate" => ("File", "file"),
        "Socket" => ("Socket", "socket file"),
        "CharDevice" => ("CharDevice", "character device"),
        "BlockDevice" => ("BlockDevice", "block device"),
        other => return Err(format!("{other} is an invalid volume type")),
    };
    let shown = path.display();
    match found(&path) {
        Ok(found) if found == expected.0 => Ok(path),
        Ok(found) => {
            Err(format!("hostPath type check failed: {shown} is not a {}, it's a {found}", expected.1))
        }
        Err(why) => Err(format!(
            "hostPath type check failed, {shown} is not a {}, unable to determine its type: {why}",
            expected.1
        )),
    }
}

/// Makes what is missing, if it is to be made. Whoever says nothing gets a directory.
fn make(path: &Path, kind: &str) -> io::Result<()> {
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

/// What is at a path, by the names that the types have.
fn found(path: &Path) -> Result<&'static str, String> {
    let metadata: Metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("path {:?} does not exist", path.display().to_string()));
        }
        other => other.map_err(|error| error.to_string())?,
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
        let check = |path: &str, kind: &str| check(&value!({"path": (path), "type": (kind)})).map(drop);
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
