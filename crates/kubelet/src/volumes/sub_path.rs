//! A path within a volume, which never leads out of it.

use std::path::{Component, Path, PathBuf};

/// Finds or makes what is at a path within a volume. Links that lead out of the volume are refused.
pub(super) fn within(volume: &Path, sub_path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(sub_path);
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("subPath {sub_path:?} must be within its volume"));
    }
    let failed = |error: std::io::Error| format!("failed to prepare subPath {sub_path:?}: {error}");
    let root = volume.canonicalize().map_err(failed)?;
    let mut path = root.clone();
    for part in relative.components() {
        path.push(part);
        match path.canonicalize() {
            Ok(found) if found.starts_with(&root) => path = found,
            Ok(_) => return Err(format!("subPath {sub_path:?} leads out of its volume")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() => {
                std::fs::create_dir(&path).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_a_volume_is_reached() {
        let directory = std::env::temp_dir().join(format!("corten-sub-path-{}", std::process::id()));
        let volume = directory.join("volume");
        std::fs::create_dir_all(volume.join("here")).unwrap();
        std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
        std::os::unix::fs::symlink("here", volume.join("in")).unwrap();
        let root = volume.canonicalize().unwrap();
        assert_eq!(within(&volume, "here").unwrap(), root.join("here"));
        assert_eq!(within(&volume, "in/new").unwrap(), root.join("here/new"));
        for bad in ["out", "out/passwd", "../x", "/etc"] {
            assert!(within(&volume, bad).is_err(), "{bad}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
