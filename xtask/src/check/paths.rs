//! Paths that an image or a container can influence are resolved in one place (`sys/src/rooted.rs`), or on descriptors.
//!
//! The files below handle such paths. A system call in them that takes a path has to be about a path of the node, or be
//! made with
//! no more rights than the container has; a comment on its line or the line above says which. Calls in other files are
//! not
//! checked: a new file that handles content of containers belongs into the list.

use std::fs;

use anyhow::{Context, ensure};

use crate::process::repository;

/// Files, and folders of files, that handle content of images and containers.
const GUARDED: [&str; 15] = [
    "crates/sys/src/removal.rs",
    "crates/sys/supervisor/child.rs",
    "crates/sys/supervisor/console.rs",
    "crates/sys/supervisor/log.rs",
    "crates/sys/supervisor/masks.rs",
    "crates/sys/supervisor/root.rs",
    "crates/container/src/image/merged.rs",
    "crates/container/src/image/unpack/tree.rs",
    "crates/kubelet/src/garbage_collection/logs.rs",
    "crates/kubelet/src/server/log_files.rs",
    "crates/kubelet/src/containers/shared_file.rs",
    "crates/kubelet/src/stats/disk.rs",
    "crates/kubelet/src/containers/termination_message.rs",
    "crates/kubelet/src/volumes/ownership.rs",
    "crates/kubelet/src/volumes/sub_path.rs",
];

/// Calls that resolve a path without restrictions.
const CALLS: [&str; 25] = [
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions::new(",
    "fs::canonicalize(",
    "fs::copy(",
    "fs::create_dir",
    "fs::exists(",
    "fs::hard_link(",
    "fs::metadata(",
    "fs::read(",
    "fs::read_dir(",
    "fs::read_link(",
    "fs::read_to_string(",
    "fs::remove",
    "fs::rename(",
    "fs::set_permissions(",
    "fs::symlink_metadata(",
    "fs::write(",
    "set_current_dir(",
    "kernel::copy_mount(",
    "kernel::mount(",
    "fs::chmod(",
    "fs::chown(",
    "fs::stat(",
];

/// Accepted reasons: the words of a comment, or a path of a descriptor.
const EXCUSES: [&str; 3] = ["path of the node", "as the container itself", "path_of("];

pub(crate) fn check() -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for name in GUARDED {
        let text = fs::read_to_string(repository().join(name)).with_context(|| format!("reading {name}"))?;
        complaints.extend(unexcused(&text).map(|(line, call)| format!("  {name}:{line}: {call}…)")));
    }
    ensure!(
        complaints.is_empty(),
        "paths of containers are resolved with `rooted`; where it is none, a comment says `{}`:\n{}",
        EXCUSES[0],
        complaints.join("\n")
    );
    Ok(())
}

/// Calls, by line, that take a path without an accepted reason. Tests at the end of a file are not checked.
fn unexcused(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let excused = |line: &str| EXCUSES.iter().any(|excuse| line.to_lowercase().contains(excuse));
        let excused = excused(line) || at > 0 && excused(lines[at - 1]);
        let is_comment = line.trim_start().starts_with("//");
        if let Some(call) =
            CALLS.iter().find(|call| line.contains(**call)).filter(|_| !excused && !is_comment)
        {
            found.push((at + 1, *call));
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_need_an_excuse() {
        let text = "fs::write(a, b);\n// A path of the node.\nfs::write(a, b);\nfs::read(x); // a path of the node\n\
            // fs::read(x)\nlet x = root.find(path);\n#[cfg(test)]\nfs::read(x)";
        assert_eq!(unexcused(text).collect::<Vec<_>>(), [(1, "fs::write(")]);
    }
}
