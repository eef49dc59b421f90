//! The logs of containers: how large they get, and how many are kept. Rotated ones are compressed, but for the newest,
//! which somebody may still be reading.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use corten_base::files;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const COMPRESSED: &str = ".gz";
const UNFINISHED: &str = ".tmp";

/// How large a log gets, and how many files it is.
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

/// What a log is called once another has taken its place.
pub(super) fn rotated_name(log: &Path, now: Timestamp) -> PathBuf {
    let at = now.to_zoned(TimeZone::system()).strftime("%Y%m%d-%H%M%S").to_string();
    with_suffix(log, &format!(".{at}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes room for one more: what is not needed goes, the oldest go, and the rest is compressed.
pub(super) fn make_room(log: &Path, most_files: usize) -> io::Result<()> {
    let all = rotated(log);
    let (kept, unused) = sorted_out(&all, most_files);
    unused.iter().try_for_each(fs::remove_file)?;
    kept.iter().filter(|path| !ends_in(path, COMPRESSED)).try_for_each(|path| compress(path))
}

/// Removes a log with everything that was rotated out of it.
pub(super) fn remove(log: &str) {
    if log.is_empty() {
        return;
    }
    let log = Path::new(log);
    for path in rotated(log).iter().map(PathBuf::as_path).chain([log]) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a log could not be removed");
            }
            _ => {}
        }
    }
}

/// The files that were rotated out of a log, oldest first.
fn rotated(log: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return Vec::new() };
    let begins = format!("{}.", name.to_string_lossy());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begins));
    let mut found: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// What is kept, and what is not: unfinished files, those that have been compressed, and the oldest beyond the limit,
/// which leaves a place for the log itself and one for the next to be rotated.
fn sorted_out(all: &[PathBuf], most_files: usize) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let is_needed = |path: &PathBuf| {
        !ends_in(path, UNFINISHED)
            && (ends_in(path, COMPRESSED) || !all.contains(&with_suffix(path, COMPRESSED)))
    };
    let (mut kept, mut unused): (Vec<PathBuf>, Vec<PathBuf>) = all.iter().cloned().partition(is_needed);
    let excess = kept.len().saturating_sub(most_files.saturating_sub(2));
    unused.extend(kept.drain(..excess));
    (kept, unused)
}

fn ends_in(path: &Path, suffix: &str) -> bool {
    path.as_os_str().to_string_lossy().ends_with(suffix)
}

/// Compresses a file; until that is done the file stays.
fn compress(path: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    let unfinished = with_suffix(path, UNFINISHED);
    let to = files::create_private(&unfinished)?;
    to.set_permissions(from.metadata()?.permissions())?;
    let mut encoder = GzEncoder::new(to, Compression::default());
    let written = io::copy(&mut from, &mut encoder).and_then(|_| encoder.finish());
    if let Err(error) = written {
        // What is left of it goes the next time too.
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    fs::rename(&unfinished, with_suffix(path, COMPRESSED))?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_and_the_rest_is_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            ["0.log", "0.log.20260101-000000.gz", "0.log.20260102-000000.gz", "0.log.20260103-000000"];
        for name in files.into_iter().chain(["0.log.20260102-000000", "0.log.20260104-000000.tmp", "1.log.1"])
        {
            fs::write(folder.path().join(name), name).unwrap();
        }
        make_room(&folder.path().join("0.log"), 4).unwrap();
        let expected = ["0.log", "0.log.20260102-000000.gz", "0.log.20260103-000000.gz", "1.log.1"];
        assert_eq!(names(folder.path()), expected);
        let compressed = File::open(folder.path().join("0.log.20260103-000000.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "0.log.20260103-000000");
        remove(&folder.path().join("0.log").to_string_lossy());
        assert_eq!(names(folder.path()), ["1.log.1"]);
    }

    #[test]
    fn two_files_are_the_log_and_the_one_before() {
        let all = ["/l/0.log.1.gz", "/l/0.log.2"].map(PathBuf::from);
        let (kept, unused) = sorted_out(&all, 2);
        assert_eq!((kept.len(), unused.len()), (0, 2));
        assert_eq!(sorted_out(&all, 3).0, [PathBuf::from("/l/0.log.2")]);
    }

    #[test]
    fn rotated_logs_are_named_by_their_time() {
        let name = rotated_name(Path::new("/l/0.log"), Timestamp::from_second(0).unwrap());
        let suffix = name.to_str().unwrap().strip_prefix("/l/0.log.").unwrap().to_owned();
        assert_eq!((suffix.len(), suffix.as_bytes()[8]), (15, b'-'));
    }
}
