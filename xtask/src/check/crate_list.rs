//! The list of crates in `docs/architecture.md` and the table of layers name the same crates.
//!
//! The list is the indented or fenced block that begins with a line `crates/`. A crate is a line `NAME  description`, with
//! the number of its layer before the first name of a layer; deeper indented lines continue a description. The list ends
//! at the first line that names a path (`testkit/`), at an empty line, or at the end of the block.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, ensure};

use super::layers::LAYERS;
use crate::process::repository;

const DOCUMENT: &str = "docs/architecture.md";
/// Continuations of a description are indented by at least this much more than `crates/`.
const CONTINUATION: usize = 10;

pub(crate) fn check() -> anyhow::Result<()> {
    let text =
        fs::read_to_string(repository().join(DOCUMENT)).with_context(|| format!("reading {DOCUMENT}"))?;
    let complaints = differences(&listed(&text), &LAYERS);
    ensure!(
        complaints.is_empty(),
        "{DOCUMENT} and the table in xtask/src/check/layers.rs differ:\n{}",
        complaints.join("\n")
    );
    Ok(())
}

/// The crates of the list, and their layers where the list numbers them.
fn listed(text: &str) -> BTreeMap<&str, Option<usize>> {
    let mut lines = text.lines().skip_while(|line| line.trim() != "crates/");
    let Some(start) = lines.next() else { return BTreeMap::new() };
    let continuation = indentation(start) + CONTINUATION;
    let mut layer = None;
    let mut crates = BTreeMap::new();
    for line in lines {
        let mut words = line.split_whitespace().peekable();
        if let Some(number) = words.peek().and_then(|word| word.parse().ok()) {
            layer = Some(number);
            words.next();
        }
        match words.next() {
            Some(name) if !name.contains('/') && !name.starts_with("```") => {
                if indentation(line) < continuation {
                    crates.insert(name, layer);
                }
            }
            _ => break,
        }
    }
    crates
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn differences(listed: &BTreeMap<&str, Option<usize>>, layers: &[&[&str]]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut table = BTreeMap::new();
    for (layer, packages) in layers.iter().enumerate() {
        table.extend(packages.iter().map(|package| (package.trim_start_matches("corten-"), layer)));
    }
    for (name, layer) in &table {
        match listed.get(name) {
            None => complaints.push(format!("  {name} is missing in the document's list of crates")),
            Some(Some(listed)) if listed != layer => {
                complaints
                    .push(format!("  {name} is in layer {listed} of the document, but {layer} of the table"));
            }
            Some(_) => {}
        }
    }
    let unknown = listed.keys().filter(|name| !table.contains_key(*name));
    complaints.extend(unknown.map(|name| format!("  {name} is in the document, but not in the table")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Map\n\n    crates/\n     0 base          the clock\n       sys           system calls\n     1 api           \
                        types, and\n                     their codecs\n     2 corten        the binary\n    testkit/         tests\n";

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let layers: [&[&str]; 3] = [&["corten-base", "corten-sys"], &["corten-api"], &["corten"]];
        assert_eq!(differences(&listed(text), &layers), expected, "{text}");
    }

    #[test]
    fn the_list_and_the_table_agree() {
        check(LIST, &[]);
        let fenced = "```text\ncrates/\n  base    the clock\n  sys     calls\n  api     types\n  corten  all\n```\nprose here\n";
        check(fenced, &[]);
    }

    #[test]
    fn differences_are_named() {
        check(
            &LIST.replace("       sys           system calls\n", ""),
            &["  sys is missing in the document's list of crates"],
        );
        check(
            &LIST.replace(" sys  ", " syx  "),
            &[
                "  sys is missing in the document's list of crates",
                "  syx is in the document, but not in the table",
            ],
        );
        check(
            &LIST.replace("     1 api ", "       api "),
            &["  api is in layer 0 of the document, but 1 of the table"],
        );
        assert_eq!(differences(&listed("no list"), &[&["corten-api"]]).len(), 1);
    }
}
