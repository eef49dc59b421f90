//! What a container said last: the file it was given for that, or the end of its log.
//!
//! Only reads; what cannot be read says nothing.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use corten_container::ContainerStatus;

use crate::names::{TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY};

const MAX_BYTES: u64 = 4096;
const MAX_LOG_BYTES: u64 = 2048;
const MAX_LOG_LINES: usize = 80;

/// What a status says of how a container ended.
pub(crate) fn message(status: &ContainerStatus) -> String {
    let annotation = |key: &str| status.annotations.get(key).map_or("", String::as_str);
    let path = annotation(TERMINATION_MESSAGE_PATH);
    let mount = status.mounts.iter().find(|mount| !path.is_empty() && mount.container_path == path);
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

fn head(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of a log, without what the log says about them.
fn log_tail(path: &Path) -> String {
    // Every line is preceded by its time and stream: read enough for both.
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

/// What a container wrote on one line of its log: its end belongs to it unless the line is only a part of one.
fn content(line: &str) -> Option<String> {
    let mut parts = line.splitn(4, ' ').skip(2);
    let (tags, text) = (parts.next()?, parts.next()?);
    let ending = if tags.split(':').next() == Some("P") { "" } else { "\n" };
    Some(format!("{text}{ending}"))
}

fn tail(path: &Path, bytes: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(bytes);
    file.seek(SeekFrom::Start(from))?;
    let mut read = Vec::new();
    file.read_to_end(&mut read)?;
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
    use corten_container::Mount;

    use super::*;

    fn status(directory: &Path, policy: &str) -> ContainerStatus {
        ContainerStatus {
            exit_code: 1,
            annotations: [
                (TERMINATION_MESSAGE_PATH.to_owned(), "/dev/termination-log".to_owned()),
                (TERMINATION_MESSAGE_POLICY.to_owned(), policy.to_owned()),
            ]
            .into(),
            mounts: vec![Mount {
                container_path: "/dev/termination-log".into(),
                host_path: directory.join("said").display().to_string(),
                ..Mount::default()
            }],
            log_path: directory.join("log").display().to_string(),
            ..ContainerStatus::default()
        }
    }

    #[test]
    fn the_file_comes_first_and_then_the_log() {
        let directory = std::env::temp_dir().join(format!("corten-termination-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let log = "2026-01-01T00:00:00Z stdout F first line\n2026-01-01T00:00:00Z stderr F it broke\n";
        std::fs::write(directory.join("log"), log).unwrap();
        assert_eq!(message(&status(&directory, "File")), "");
        assert_eq!(message(&status(&directory, "FallbackToLogsOnError")), "first line\nit broke\n");
        std::fs::write(directory.join("log"), format!("{log}2026-01-01T00:00:00Z stdout P and so on\n"))
            .unwrap();
        assert_eq!(message(&status(&directory, "FallbackToLogsOnError")), "first line\nit broke\nand so on");
        std::fs::write(directory.join("said"), "DONE").unwrap();
        assert_eq!(message(&status(&directory, "FallbackToLogsOnError")), "DONE");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
