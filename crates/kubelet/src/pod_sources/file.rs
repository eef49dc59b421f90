//! Manifests in a directory or in one file: read when something changes there, and periodically.
//!
//! Files whose names begin with a dot are ignored. An invalid manifest does not keep the others from running.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corten_sys::files::Entries;

use super::StaticPods;
use super::decode::{self, Origin};
use crate::pod::{Pod, Source};

/// The maximum size of a manifest.
const LONGEST: u64 = 10 << 20;
/// The time that files may be written before they are read.
const SETTLE: Duration = Duration::from_millis(100);

/// The pods of a directory by their files, as they were last read.
type Known = BTreeMap<PathBuf, Pod>;

/// Watches a directory, for good.
pub(super) async fn watch(path: PathBuf, period: Duration, mut sink: StaticPods) {
    let mut known = Known::new();
    let mut events = false;
    loop {
        // The watch begins before the files are read, so that no change is missed.
        let watch = watch_entries(&path);
        match read(&path, &known, events, sink.node_name()) {
            Ok(found) => {
                known = first_seen(found, &known, sink.kubelet.clock.now());
                sink.set(known.values().cloned().collect());
            }
            Err(err) => {
                tracing::warn!(path = %path.display(), %err, "cannot read static pod manifests; retrying")
            }
        }
        let changed = async {
            match watch {
                Some(mut watch) => drop(watch.next().await),
                None => std::future::pending().await,
            }
        };
        let clock = sink.kubelet.clock.clone();
        events = clock.timeout(period, changed).await.is_some();
        if events {
            clock.sleep(SETTLE).await;
        }
    }
}

/// Watches a directory, or the closest one above it that exists.
fn watch_entries(path: &Path) -> Option<Entries> {
    let directory = path.ancestors().find(|ancestor| ancestor.is_dir())?;
    Entries::of(directory)
        .inspect_err(|err| tracing::warn!(%err, "cannot watch static pod directory; polling it"))
        .ok()
}

/// Reads every manifest. While files change, an invalid one keeps its last valid version.
fn read(path: &Path, known: &Known, changing: bool, node: &str) -> io::Result<Known> {
    let mut found = Known::new();
    for file in files(path)? {
        let text = match text(&file) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            Err(err) => {
                tracing::warn!(file = %file.display(), %err, "cannot read static pod manifest");
                continue;
            }
        };
        let place = file.display().to_string();
        match decode::pod(&text, &Origin { source: Source::File, place: &place, node }) {
            Ok(pod) => drop(found.insert(file, pod)),
            Err(err) => {
                tracing::warn!(file = place, %err, "cannot use static pod manifest");
                if let Some(pod) = known.get(&file).filter(|_| changing) {
                    found.insert(file, pod.clone());
                }
            }
        }
    }
    Ok(found)
}

fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => return Ok(vec![path.to_owned()]),
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Sets the time when new pods were first seen; known ones keep theirs.
fn first_seen(found: Known, known: &Known, now: jiff::Timestamp) -> Known {
    let dated = found.into_iter().map(|(file, pod)| {
        let same = known.get(&file).filter(|known| known.uid() == pod.uid());
        let pod = same.cloned().unwrap_or_else(|| decode::with_first_seen(&pod, now));
        (file, pod)
    });
    dated.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}"
        )
    }

    fn names(known: &Known) -> Vec<&str> {
        known.values().map(Pod::name).collect()
    }

    #[test]
    fn files_that_are_not_manifests_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("a.yaml", &manifest("a"));
        write("b.json", &manifest("b"));
        write(".c.yaml.swp", &manifest("c"));
        write("d.yaml", "apiVersion: [");
        std::fs::create_dir(directory.path().join("e")).unwrap();
        let known = read(directory.path(), &Known::new(), false, "n").unwrap();
        assert_eq!(names(&known), ["a-n", "b-n"]);

        write("a.yaml", "half of it");
        assert_eq!(names(&read(directory.path(), &known, true, "n").unwrap()), ["a-n", "b-n"]);
        assert_eq!(names(&read(directory.path(), &known, false, "n").unwrap()), ["b-n"]);

        let one = read(&directory.path().join("b.json"), &Known::new(), false, "n").unwrap();
        assert_eq!(names(&one), ["b-n"]);
        assert!(read(Path::new("/not/there"), &known, false, "n").unwrap().is_empty());
    }

    #[test]
    fn a_pod_keeps_the_time_it_was_seen() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), manifest("a")).unwrap();
        let look = |known: &Known, at: &str| {
            let found = read(directory.path(), known, false, "n").unwrap();
            first_seen(found, known, at.parse().unwrap())
        };
        let first = look(&Known::new(), "2026-01-01T00:00:00Z");
        let second = look(&first, "2026-01-02T00:00:00Z");
        let tree = |known: &Known| known.values().next().unwrap().tree().clone();
        assert_eq!(tree(&first), tree(&second));
        let seen = ["metadata", "annotations", "kubernetes.io/config.seen"];
        assert_eq!(tree(&first).str_at(&seen), Some("2026-01-01T00:00:00Z"));
    }
}
