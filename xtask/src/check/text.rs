//! Texts that every file must contain, and texts that none may.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::process::repository;

/// The folders of Rust sources; generated and vendored code would be elsewhere.
pub(super) const FOLDERS: [&str; 5] = ["crates", "testkit", "tests", "xtask", "fuzz"];

/// The two commands that the README names, word for word.
const PROMISED: [&str; 2] = ["cargo run --release -p corten -- server", "cargo xtask test"];

pub(crate) fn check() -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for folder in FOLDERS {
        for file in rust_files(&repository().join(folder))? {
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let name = file.strip_prefix(repository()).unwrap_or(&file).display().to_string();
            let found = complaints_about(&text, !name.ends_with("/tests.rs"));
            complaints.extend(found.map(|complaint| format!("  {name}: {complaint}")));
        }
    }
    let readme = fs::read_to_string(repository().join("README.md")).context("reading README.md")?;
    for command in PROMISED {
        if !readme.contains(command) {
            complaints.push(format!("  README.md: does not contain `{command}`"));
        }
    }
    ensure!(complaints.is_empty(), "texts that are missing or not allowed:\n{}", complaints.join("\n"));
    Ok(())
}

/// A `tests.rs` is the end of the file it tests and needs no header of its own.
fn complaints_about(text: &str, wants_header: bool) -> impl Iterator<Item = String> {
    let header = (wants_header && !text.starts_with("//!")).then(|| "does not start with //!".to_owned());
    let unfinished = text.lines().enumerate().filter(|(_, line)| is_unfinished(line));
    let unfinished: Vec<String> =
        unfinished.map(|(index, line)| format!("line {}: {}", index + 1, line.trim())).collect();
    header.into_iter().chain(unfinished)
}

/// Work left for later belongs in an issue.
fn is_unfinished(line: &str) -> bool {
    ["TO".to_owned() + "DO", "FIX".to_owned() + "ME"].iter().any(|word| line.contains(word.as_str()))
}

pub(super) fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    files(folder, &[".rs"])
}

/// All files below a folder whose names have one of these endings, sorted. Build results are left out.
pub(super) fn files(folder: &Path, endings: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(complaints_about(text, true).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_begin_with_a_header() {
        check("//! Selectors.\n\nuse std::fmt;\n", &[]);
        check("use std::fmt;\n", &["does not start with //!"]);
        let unfinished = format!("//! Selectors.\n// {}DO: later\n", "TO");
        check(&unfinished, &[&format!("line 2: // {}DO: later", "TO")]);
    }

    #[test]
    fn nested_folders_are_searched() {
        let files = rust_files(&repository().join("xtask")).unwrap();
        assert!(files.iter().any(|file| file.ends_with("src/check/text.rs")));
    }
}
