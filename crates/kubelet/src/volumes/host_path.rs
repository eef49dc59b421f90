//! Paths of the node itself.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;

use corten_api::Value;

/// Sees to it that there is what the pod expects to find.
pub(super) fn check(source: &Value) -> Result<PathBuf, String> {
    let text = source.str_at(&["path"]).unwrap_or_default();
    let path = PathBuf::from(text);
    let kind = source.str_at(&["type"]).unwrap_or_default();
    let failed = |error: std::io::Error| error.to_string();
    match kind {
        "DirectoryOrCreate" if !path.exists() => {
            std::fs::create_dir_all(&path).map_err(failed)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(failed)?;
        }
        "FileOrCreate" if !path.exists() => {
            std::fs::write(&path, "").map_err(failed)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).map_err(failed)?;
        }
        _ => {}
    }
    let metadata = std::fs::metadata(&path).ok();
    let is = |test: fn(&std::fs::Metadata) -> bool| metadata.as_ref().is_some_and(test);
    let (fits, what) = match kind {
        "Directory" | "DirectoryOrCreate" => (is(std::fs::Metadata::is_dir), "a directory"),
        "File" | "FileOrCreate" => (is(std::fs::Metadata::is_file), "a file"),
        "Socket" => (is(|m| m.file_type().is_socket()), "a socket file"),
        "CharDevice" => (is(|m| m.file_type().is_char_device()), "a character device"),
        "BlockDevice" => (is(|m| m.file_type().is_block_device()), "a block device"),
        _ => {
            // Without a type, a directory is made for whoever has none.
            if metadata.is_none() {
                std::fs::create_dir_all(&path).map_err(failed)?;
            }
            (true, "")
        }
    };
    if fits { Ok(path) } else { Err(format!("hostPath type check failed: {text} is not {what}")) }
}
