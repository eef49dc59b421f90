//! The commands of contributors: `cargo xtask check`, `prepare`, `test` and `cel-vectors`.
//!
//! `test` is the one command: it installs what is missing, checks the repository, and runs every test. Nothing here
//! depends on Corten's own crates, so that it is built within seconds.

mod check;
mod prepare;
mod process;

use std::env;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use anyhow::{bail, ensure};

const USAGE: &str = "\
cargo xtask check      check layers, docs, language, file headers, fuzz targets and formatting
cargo xtask prepare    install what the tests need: a C compiler, kubectl, containerd, the Python client, …
cargo xtask test       all of the above, lints and every test (as root)
cargo xtask cel-vectors DIR
                       run the conformance tests of CEL in DIR: the files of tests/simple/testdata of its
                       specification, and cases recorded from upstream (crates/cel/examples/json_vectors)";

fn main() -> anyhow::Result<()> {
    let started = Instant::now();
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => check::all()?,
        ["prepare"] => prepare::all()?,
        ["test"] => test()?,
        ["cel-vectors", folder] => cel_vectors(folder)?,
        _ => bail!("unknown command\n{USAGE}"),
    }
    eprintln!("done in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Runs the cases of each kind that the folder has.
fn cel_vectors(folder: &str) -> anyhow::Result<()> {
    let mut extensions = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        extensions.extend(entry?.path().extension().map(|extension| extension.to_owned()));
    }
    for (extension, example) in [("textproto", "vectors"), ("jsonl", "json_vectors")] {
        if extensions.iter().any(|found| found == extension) {
            process::cargo(&["run", "--quiet", "-p", "corten-cel", "--example", example, "--", folder])?;
        }
    }
    Ok(())
}

fn test() -> anyhow::Result<()> {
    ensure!(is_root(), "the tests start containers and need root; CONTRIBUTING.md lists those that do not");
    prepare::all()?;
    check::all()?;
    process::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    // The binary by itself has fewer features of its dependencies than the workspace, and it is what users build.
    process::cargo(&["check", "--package", "corten", "--quiet"])?;
    // With all targets, as the tests are built, so that nothing is built twice: the tests start the program itself.
    process::cargo(&["build", "--workspace", "--all-targets"])?;
    process::cargo(&["test", "--workspace", "--no-fail-fast"])
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
