//! Every fuzz body has a fuzz target, a corpus and a line in the table of bodies, and none of those is without a body.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::process::repository;

/// Files among the bodies that are none.
const NO_BODIES: [&str; 2] = ["mod", "conformed"];

/// Maximum size of a file of a corpus: seeds are small, and findings of a fuzzer are kept elsewhere.
const LARGEST_SEED: u64 = 2048;

pub(crate) fn check() -> anyhow::Result<()> {
    let folder = repository().join("fuzz");
    let mut bodies = names(&folder.join("bodies"), ".rs")?;
    bodies.retain(|name| !NO_BODIES.contains(&name.as_str()));
    let table = fs::read_to_string(folder.join("bodies/mod.rs")).context("reading fuzz/bodies/mod.rs")?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).context("reading fuzz/Cargo.toml")?;
    let corpora = names(&folder.join("corpus"), "")?;
    let parts = [
        ("a fuzz target in fuzz/fuzz_targets", names(&folder.join("fuzz_targets"), ".rs")?),
        (
            "a [[bin]] in fuzz/Cargo.toml",
            quoted(&manifest, "name = \"").filter(|name| name != "corten-fuzz").collect(),
        ),
        ("a line in BODIES of fuzz/bodies/mod.rs", quoted(&table, "    (\"").collect()),
        ("a corpus in fuzz/corpus", corpora.clone()),
    ];
    let mut complaints: Vec<String> =
        parts.iter().flat_map(|(part, found)| differences(&bodies, part, found)).collect();
    for corpus in corpora {
        complaints.extend(seeds(&folder.join("corpus").join(&corpus))?);
    }
    ensure!(complaints.is_empty(), "the fuzz targets:\n{}", complaints.join("\n"));
    Ok(())
}

/// The names in a folder that end so, without their ends.
fn names(folder: &Path, end: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let name = entry.with_context(|| format!("listing {}", folder.display()))?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(end)).map(str::to_owned));
    }
    Ok(names)
}

/// The text between a prefix and the next quote, of every line that has both.
fn quoted<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = String> + 'a {
    text.lines().filter_map(move |line| Some(line.strip_prefix(begin)?.split_once('"')?.0.to_owned()))
}

fn differences(bodies: &BTreeSet<String>, part: &str, found: &BTreeSet<String>) -> Vec<String> {
    let missing = bodies.difference(found).map(|name| format!("  {name} has not {part}"));
    let left =
        found.difference(bodies).map(|name| format!("  {name} has {part}, but no body in fuzz/bodies"));
    missing.chain(left).collect()
}

fn seeds(corpus: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(corpus).with_context(|| format!("listing {}", corpus.display()))? {
        let entry = entry.with_context(|| format!("listing {}", corpus.display()))?;
        count += 1;
        if entry.metadata().with_context(|| format!("reading {}", entry.path().display()))?.len()
            > LARGEST_SEED
        {
            complaints.push(format!("  {}: larger than {LARGEST_SEED} bytes", entry.path().display()));
        }
    }
    if count == 0 {
        complaints.push(format!("  {}: without seeds", corpus.display()));
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_without_its_parts_is_found() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(differences(&set(&["a", "b"]), "a corpus", &set(&["b", "a"])), [""; 0]);
        let found = differences(&set(&["a", "b"]), "a corpus", &set(&["b", "c"]));
        assert_eq!(found, ["  a has not a corpus", "  c has a corpus, but no body in fuzz/bodies"]);
    }

    #[test]
    fn the_table_is_read() {
        let table =
            "const BODIES: [Body; 2] = [\n    (\"dns\", dns::check),\n    (\"cni\", cni::check),\n];\n";
        assert_eq!(quoted(table, "    (\"").collect::<Vec<_>>(), ["dns", "cni"]);
    }
}
