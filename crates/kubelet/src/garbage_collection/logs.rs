//! Rotation of container logs: their size, and the number that is kept. Rotated logs are compressed, except for the
//! newest, which may still be read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::containers::shared_file::Folder;

const COMPRESSED: &str = ".gz";
const UNFINISHED: &str = ".tmp";

/// The maximum size of a log, and the number of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPolicy {
    pub(crate) most_bytes: u64,
    pub(crate) most_files: usize,
}

impl Default for LogPolicy {
    fn default() -> LogPolicy {
        LogPolicy { most_bytes: 10 * 1024 * 1024, most_files: 5 }
    }
}

impl LogPolicy {
    pub(super) fn rotates(self) -> bool {
        self.most_bytes < u64::MAX
    }
}

/// The name of a log after its rotation.
pub(super) fn rotated_name(log: &OsStr, now: Timestamp) -> OsString {
    let at = now.to_zoned(TimeZone::system()).strftime("%Y%m%d-%H%M%S").to_string();
    with_suffix(log, &format!(".{at}"))
}

fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

/// Prepares a rotation: removes what is not needed and the oldest, and compresses the rest.
pub(super) fn prepare_rotation(folder: &Folder, log: &OsStr, most_files: usize) -> io::Result<()> {
    let all = rotated(folder, log)?;
    let (kept, unused) = partition_rotated(&all, most_files);
    unused.iter().try_for_each(|name| folder.remove(name))?;
    kept.iter().filter(|name| !ends_in(name, COMPRESSED)).try_for_each(|name| compress(folder, name))
}

/// Removes a log with all its rotated files.
pub(super) fn remove(log: &str) {
    let removed = Folder::of(Path::new(log)).and_then(|(folder, log)| {
        let mut names = rotated(&folder, &log)?;
        names.push(log);
        names.iter().try_for_each(|name| match folder.remove(name) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            _ => Ok(()),
        })
    });
    match removed {
        Err(err) if err.kind() != io::ErrorKind::NotFound && !log.is_empty() => {
            tracing::warn!(log, %err, "cannot remove container log");
        }
        _ => {}
    }
}

/// The rotated files of a log, oldest first.
fn rotated(folder: &Folder, log: &OsStr) -> io::Result<Vec<OsString>> {
    folder.names(&with_suffix(log, "."))
}

/// The rotated files to keep, and those to remove: unfinished files, originals of compressed ones, and the oldest
/// beyond the limit, which leaves room for the log itself and the next rotated one.
fn partition_rotated(all: &[OsString], most_files: usize) -> (Vec<OsString>, Vec<OsString>) {
    let is_needed = |name: &OsString| {
        !ends_in(name, UNFINISHED)
            && (ends_in(name, COMPRESSED) || !all.contains(&with_suffix(name, COMPRESSED)))
    };
    let (mut kept, mut unused): (Vec<OsString>, Vec<OsString>) = all.iter().cloned().partition(is_needed);
    let excess = kept.len().saturating_sub(most_files.saturating_sub(2));
    unused.extend(kept.drain(..excess));
    (kept, unused)
}

fn ends_in(name: &OsStr, suffix: &str) -> bool {
    name.as_encoded_bytes().ends_with(suffix.as_bytes())
}

/// Compresses a file, which is removed afterwards. Anything but a regular file is removed: it is not a log.
fn compress(folder: &Folder, name: &OsStr) -> io::Result<()> {
    let mut from = match folder.open(name) {
        Err(err) if err.kind() == io::ErrorKind::InvalidInput => return folder.remove(name),
        other => other?,
    };
    let mode = from.metadata()?.permissions().mode() & 0o777;
    let unfinished = with_suffix(name, UNFINISHED);
    let to = folder.create(&unfinished, mode)?;
    let mut encoder = GzEncoder::new(to, Compression::default());
    let written = io::copy(&mut from, &mut encoder).and_then(|_| encoder.finish());
    if let Err(err) = written {
        // The rest of it is removed in the next round.
        let _ = folder.remove(&unfinished);
        return Err(err);
    }
    folder.rename(&unfinished, &with_suffix(name, COMPRESSED))?;
    folder.remove(name)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A directory of a container's logs, within a temporary one.
    fn logs() -> (tempfile::TempDir, PathBuf) {
        let node = tempfile::tempdir().unwrap();
        let folder = node.path().join("logs/pod/c");
        fs::create_dir_all(&folder).unwrap();
        (node, folder)
    }

    fn prepare_rotation(log: &Path, most_files: usize) -> io::Result<()> {
        let (folder, name) = Folder::of(log)?;
        super::prepare_rotation(&folder, &name, most_files)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_are_removed_and_the_rest_is_compressed() {
        let (_node, folder) = logs();
        let files =
            ["0.log", "0.log.20260101-000000.gz", "0.log.20260102-000000.gz", "0.log.20260103-000000"];
        for name in files.into_iter().chain(["0.log.20260102-000000", "0.log.20260104-000000.tmp", "1.log.1"])
        {
            fs::write(folder.join(name), name).unwrap();
        }
        prepare_rotation(&folder.join("0.log"), 4).unwrap();
        let expected = ["0.log", "0.log.20260102-000000.gz", "0.log.20260103-000000.gz", "1.log.1"];
        assert_eq!(names(&folder), expected);
        let compressed = File::open(folder.join("0.log.20260103-000000.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "0.log.20260103-000000");
        remove(&folder.join("0.log").to_string_lossy());
        assert_eq!(names(&folder), ["1.log.1"]);
    }

    #[test]
    fn two_files_are_the_log_and_the_previous_one() {
        let all = ["0.log.1.gz", "0.log.2"].map(OsString::from);
        let (kept, unused) = partition_rotated(&all, 2);
        assert_eq!((kept.len(), unused.len()), (0, 2));
        assert_eq!(partition_rotated(&all, 3).0, [OsString::from("0.log.2")]);
    }

    #[test]
    fn rotated_logs_are_named_by_time() {
        let name = rotated_name(OsStr::new("0.log"), Timestamp::from_second(0).unwrap());
        let suffix = name.to_str().unwrap().strip_prefix("0.log.").unwrap().to_owned();
        assert_eq!((suffix.len(), suffix.as_bytes()[8]), (15, b'-'));
    }

    /// A pod with the directory mounted creates links where the kubelet is about to read and write.
    #[test]
    fn links_are_neither_read_nor_written() {
        let (node, folder) = logs();
        let outside = node.path().join("shadow");
        fs::write(&outside, "secret").unwrap();
        symlink(&outside, folder.join("0.log.20260101-000000")).unwrap();
        fs::write(folder.join("0.log.20260102-000000"), "said").unwrap();
        symlink(&outside, folder.join("0.log.20260102-000000.tmp")).unwrap();
        symlink(&outside, folder.join("0.log.20260102-000000.gz.tmp")).unwrap();
        prepare_rotation(&folder.join("0.log"), 5).unwrap();
        assert_eq!(names(&folder), ["0.log.20260102-000000.gz"]);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
        // A directory that is a link is refused.
        let linked = node.path().join("logs/pod/linked");
        let files = node.path().join("files");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("0.log.1"), "").unwrap();
        symlink(&files, &linked).unwrap();
        assert!(prepare_rotation(&linked.join("0.log"), 2).is_err());
        remove(&linked.join("0.log").to_string_lossy());
        assert_eq!(names(&files), ["0.log.1"]);
    }
}
