//! Files and directories are created in one place (`base/src/files.rs`), so that none is open to other users of a
//! machine
//! because a call left its mode to the umask.
//!
//! The files below create files for another reason, given beside each. Tests are not checked.

use std::fs;

use anyhow::{Context, ensure};

use super::text::rust_files;
use crate::process::repository;

/// Calls that create a file or a directory.
const CALLS: [&str; 6] = [
    "fs::create_dir",
    "DirBuilder::new(",
    "File::create",
    "fs::write(",
    ".create(true)",
    ".create_new(true)",
];

/// Calls of the one place.
const THROUGH: [&str; 2] = ["files::", "LogFile::"];

/// Allowed files, and the reason.
const MAY: [(&str, &str); 9] = [
    ("crates/base/src/files.rs", "the one place"),
    ("crates/container/src/native/cgroup.rs", "files of the kernel"),
    ("crates/corten/src/image.rs", "an archive where the user wants it"),
    ("crates/corten/src/join.rs", "the folder of a kubeconfig, which others may share"),
    ("crates/kubelet/src/volumes/sub_path.rs", "places to mount on"),
    ("crates/net/src/host.rs", "settings of the kernel"),
    ("crates/pki/src/files.rs", "keys, with their modes from the start"),
    ("crates/proxy/src/iptables/tables.rs", "settings of the kernel"),
    ("crates/proxy/src/sysctls.rs", "settings of the kernel"),
];

/// Folders that are no part of a cluster: benchmarks, build scripts, and programs without dependencies.
const OUTSIDE: [&str; 3] = ["crates/bench/", "crates/descriptions/build/", "crates/sys/supervisor/"];

pub(crate) fn check() -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for file in rust_files(&repository().join("crates"))? {
        let name = file.strip_prefix(repository()).unwrap_or(&file).display().to_string();
        let is_test =
            ["/tests/", "/tests.rs", "/examples/", "/build.rs"].iter().any(|part| name.contains(part));
        let may = MAY.iter().any(|(file, _)| *file == name);
        if is_test || may || OUTSIDE.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("reading {name}"))?;
        complaints.extend(makers(&text).map(|(line, call)| format!("  {name}:{line}: {call}")));
    }
    ensure!(
        complaints.is_empty(),
        "files are made with corten_base::files, which gives them their modes:\n{}",
        complaints.join("\n")
    );
    Ok(())
}

/// Calls, by line, that create a file or directory themselves.
fn makers(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().enumerate().filter_map(|(at, line)| {
        let is_comment = line.trim_start().starts_with("//");
        let goes_through = THROUGH.iter().any(|way| line.contains(way));
        let call = CALLS.iter().find(|call| line.contains(**call))?;
        (!is_comment && !goes_through).then_some((at + 1, *call))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_created_elsewhere_are_found() {
        let text = "//! x\nfs::create_dir_all(a)?;\n// fs::write(a, b)\nfiles::open_private(OpenOptions::new().create(true), a)?;\n\
                    let file = File::create(a)?;\n#[cfg(test)]\nfs::write(a, b);\n";
        let found: Vec<_> = makers(text).collect();
        assert_eq!(found, [(2, "fs::create_dir"), (5, "File::create")]);
    }
}
