//! The termination message of a container: its file, or the end of its log.
//!
//! Only reads; a file that cannot be read is empty. Of all files that may be mounted at the path, only the one that
//! the kubelet created is read: anything else could be a link of the container.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use corten_container::ContainerStatus;

use crate::containers::labels::{POD_UID, TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY};
use crate::containers::shared_file;

const MAX_BYTES: u64 = 4096;
const MAX_LOG_BYTES: u64 = 2048;
const MAX_LOG_LINES: usize = 80;

/// The termination message of a container.
pub(crate) fn message(status: &ContainerStatus) -> String {
    let annotation = |key: &str| status.annotations.get(key).map_or("", String::as_str);
    let path = annotation(TERMINATION_MESSAGE_PATH);
    let mount = status.mounts.iter().find(|mount| {
        !path.is_empty() && mount.container_path == path && is_own(status, Path::new(&mount.host_path))
    });
    let written = mount.map(|mount| head(Path::new(&mount.host_path))).unwrap_or_default();
    if !written.is_empty() {
        return match status.message.as_str() {
            "" => written,
            known => format!("{known}: {written}"),
        };
    }
    let falls_back = annotation(TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError";
    if status.message.is_empty() && falls_back && status.exit_code != 0 {
        return log_tail(Path::new(&status.log_path));
    }
    status.message.clone()
}

/// Returns true if the kubelet created a file for a container: `pods/<uid>/containers/<name>/<file>`.
fn is_own(status: &ContainerStatus, path: &Path) -> bool {
    let Some(uid) = status.labels.get(POD_UID) else { return false };
    let place = Path::new("pods").join(uid).join("containers").join(&status.metadata.name);
    path.parent().is_some_and(|folder| folder.ends_with(place))
}

fn head(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = shared_file::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of a log, without timestamps and streams.
fn log_tail(path: &Path) -> String {
    // Every line begins with its timestamp and stream: read enough for both.
    let Ok(text) = tail(path, MAX_LOG_BYTES * 2) else { return String::new() };
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rev().take(MAX_LOG_LINES).rev();
    let mut said: String = last.filter_map(|line| content(line)).collect();
    let limit = usize::try_from(MAX_LOG_BYTES).unwrap_or(usize::MAX);
    let mut from = said.len().saturating_sub(limit);
    while !said.is_char_boundary(from) {
        from += 1;
    }
    said.split_off(from)
}

/// The text of one line of a log; with a newline unless the line is partial.
fn content(line: &str) -> Option<String> {
    let mut parts = line.splitn(4, ' ').skip(2);
    let (tags, text) = (parts.next()?, parts.next()?);
    let ending = if tags.split(':').next() == Some("P") { "" } else { "\n" };
    Some(format!("{text}{ending}"))
}

fn tail(path: &Path, bytes: u64) -> std::io::Result<String> {
    let mut file = shared_file::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(bytes);
    file.seek(SeekFrom::Start(from))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    let text = String::from_utf8_lossy(&read).into_owned();
    // The first line may have been cut.
    Ok(if from == 0 {
        text
    } else {
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use corten_container::{ContainerMetadata, Mount};

    use super::*;

    fn status(directory: &Path, policy: &str) -> ContainerStatus {
        ContainerStatus {
            exit_code: 1,
            metadata: ContainerMetadata { name: "c".to_owned(), attempt: 0 },
            labels: [(POD_UID.to_owned(), "u".to_owned())].into(),
            annotations: [
                (TERMINATION_MESSAGE_PATH.to_owned(), "/dev/termination-log".to_owned()),
                (TERMINATION_MESSAGE_POLICY.to_owned(), policy.to_owned()),
            ]
            .into(),
            mounts: vec![Mount {
                container_path: "/dev/termination-log".into(),
                host_path: directory.join("pods/u/containers/c/said").display().to_string(),
                ..Mount::default()
            }],
            log_path: directory.join("logs/p/c/0.log").display().to_string(),
            ..ContainerStatus::default()
        }
    }

    fn node() -> tempfile::TempDir {
        let node = tempfile::tempdir().unwrap();
        for folder in ["pods/u/containers/c", "logs/p/c"] {
            std::fs::create_dir_all(node.path().join(folder)).unwrap();
        }
        node
    }

    #[test]
    fn the_file_is_preferred_to_the_log() {
        let node = node();
        let directory = node.path();
        let log = "2026-01-01T00:00:00Z stdout F first line\n2026-01-01T00:00:00Z stderr F it broke\n";
        std::fs::write(directory.join("logs/p/c/0.log"), log).unwrap();
        assert_eq!(message(&status(directory, "File")), "");
        assert_eq!(message(&status(directory, "FallbackToLogsOnError")), "first line\nit broke\n");
        std::fs::write(
            directory.join("logs/p/c/0.log"),
            format!("{log}2026-01-01T00:00:00Z stdout P and so on\n"),
        )
        .unwrap();
        assert_eq!(message(&status(directory, "FallbackToLogsOnError")), "first line\nit broke\nand so on");
        std::fs::write(directory.join("pods/u/containers/c/said"), "DONE").unwrap();
        assert_eq!(message(&status(directory, "FallbackToLogsOnError")), "DONE");
    }

    /// Everything that the container can put there instead: a volume at the same path, a link, an endless file.
    #[test]
    fn only_the_kubelets_file_is_read() {
        let node = node();
        let directory = node.path();
        std::fs::write(directory.join("shadow"), "secret").unwrap();
        let mut volume = status(directory, "File");
        volume.mounts[0].host_path = directory.join("shadow").display().to_string();
        assert_eq!(message(&volume), "");
        let said = directory.join("pods/u/containers/c/said");
        std::os::unix::fs::symlink(directory.join("shadow"), &said).unwrap();
        assert_eq!(message(&status(directory, "File")), "");
        std::fs::remove_file(&said).unwrap();
        std::os::unix::fs::symlink(directory.join("shadow"), directory.join("logs/p/c/0.log")).unwrap();
        assert_eq!(message(&status(directory, "FallbackToLogsOnError")), "");
        std::fs::write(&said, vec![b'x'; 10_000]).unwrap();
        assert_eq!(message(&status(directory, "File")).len(), 4096);
    }
}
