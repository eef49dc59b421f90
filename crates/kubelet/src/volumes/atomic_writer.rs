//! Files that change atomically: each version is in a directory of its own, and one link names the present one.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use corten_base::files;

/// The bytes and the mode of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// Files by their paths within a volume.
pub(super) type Files = BTreeMap<String, Content>;

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Makes a volume hold exactly these files. Nothing is written if it already does.
pub(super) fn write(volume: &Path, wanted: &Files) -> io::Result<()> {
    files::directory(volume, 0o777)?;
    // A link that does not name a version was not created here: its target is neither read nor removed.
    let current = std::fs::read_link(volume.join(DATA)).ok().filter(|set| is_set(set));
    if current.as_ref().is_some_and(|set| holds(&volume.join(set), wanted)) {
        return Ok(());
    }
    let set = new_set(volume, wanted)?;
    let next = volume.join(NEXT);
    let _ = std::fs::remove_file(&next);
    symlink(&set, &next)?;
    std::fs::rename(&next, volume.join(DATA))?;
    let shown: std::collections::BTreeSet<&str> =
        wanted.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &shown {
        let link = volume.join(name);
        if !link.is_symlink() {
            symlink(Path::new(DATA).join(name), &link)?;
        }
    }
    for entry in std::fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !shown.contains(name.as_str()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    match current {
        Some(old) => std::fs::remove_dir_all(volume.join(old)),
        None => Ok(()),
    }
}

/// Returns true if a link can name a version in the same directory.
fn is_set(link: &Path) -> bool {
    let mut parts = link.components();
    let named =
        matches!(parts.next(), Some(Component::Normal(name)) if name.as_encoded_bytes().starts_with(b".."));
    named && parts.next().is_none()
}

/// Creates a directory with the files. Returns its name, which is unique.
fn new_set(volume: &Path, wanted: &Files) -> io::Result<PathBuf> {
    let stamp = jiff::Timestamp::now().as_nanosecond();
    let name = PathBuf::from(format!("..{stamp}"));
    let directory = volume.join(&name);
    files::directory(&directory, 0o755)?;
    for (path, content) in wanted {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            files::directories(parent, 0o755)?;
        }
        files::write(&path, content.mode, &content.bytes)?;
    }
    Ok(name)
}

/// Returns true if a directory holds exactly these files.
fn holds(set: &Path, files: &Files) -> bool {
    let same = |(path, content): (&String, &Content)| {
        let path = set.join(path);
        let mode = std::fs::metadata(&path).map(|m| m.permissions().mode() & 0o777);
        std::fs::read(&path).is_ok_and(|bytes| bytes == content.bytes)
            && mode.is_ok_and(|mode| mode & 0o700 == content.mode & 0o700)
    };
    count(set) == files.len() && files.iter().all(same)
}

fn count(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let content = |text: &str| Content { bytes: text.into(), mode: 0o644 };
        entries.iter().map(|(path, text)| ((*path).to_owned(), content(text))).collect()
    }

    #[test]
    fn a_volume_changes_atomically() {
        let volume = std::env::temp_dir().join(format!("corten-atomic-{}", std::process::id()));
        let read = |path: &str| std::fs::read_to_string(volume.join(path)).ok();
        write(&volume, &files(&[("a", "1"), ("dir/b", "2")])).unwrap();
        assert_eq!((read("a"), read("dir/b")), (Some("1".into()), Some("2".into())));
        let first = std::fs::read_link(volume.join(DATA)).unwrap();
        write(&volume, &files(&[("a", "1"), ("dir/b", "2")])).unwrap();
        assert_eq!(std::fs::read_link(volume.join(DATA)).unwrap(), first, "nothing changed");
        write(&volume, &files(&[("a", "3"), ("c", "4")])).unwrap();
        assert_eq!((read("a"), read("c"), read("dir/b")), (Some("3".into()), Some("4".into()), None));
        assert!(!volume.join(&first).exists(), "what was before is gone");
        std::fs::remove_dir_all(&volume).unwrap();
    }

    /// CVE-2017-1002102: a container replaced the link by one to the node, and an update removed what was there.
    #[test]
    fn links_of_containers_are_not_followed() {
        let node = tempfile::tempdir().unwrap();
        let (volume, outside) = (node.path().join("volume"), node.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "").unwrap();
        let files = |text: &str| Files::from([("a".to_owned(), Content { bytes: text.into(), mode: 0o644 })]);
        for hostile in [outside.clone(), PathBuf::from("../outside"), PathBuf::from("..x/../../outside")] {
            write(&volume, &files("first")).unwrap();
            std::fs::remove_file(volume.join(DATA)).unwrap();
            std::fs::create_dir_all(volume.join("..x")).unwrap();
            symlink(&hostile, volume.join(DATA)).unwrap();
            write(&volume, &files("second")).unwrap();
            assert!(outside.join("file").exists(), "{}", hostile.display());
            assert_eq!(std::fs::read_to_string(volume.join("a")).unwrap(), "second");
        }
    }
}
