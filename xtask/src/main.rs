//! What contributors run: `cargo xtask check`, `prepare` and `test`.
//!
//! `test` is the one command: it installs what is missing, checks the repository, and runs every test there
//! is. Nothing here knows what Corten does.

mod check;
mod prepare;
mod process;

use std::env;
use std::time::Instant;

use anyhow::bail;

const USAGE: &str = "\
cargo xtask check      layers, formatting, file headers, README
cargo xtask prepare    install what the tests need: a C compiler, kubectl, the Python client
cargo xtask test       all of the above, lints and every test";

fn main() -> anyhow::Result<()> {
    let started = Instant::now();
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => check::all()?,
        ["prepare"] => prepare::all()?,
        ["test"] => test()?,
        _ => bail!("what to do?\n{USAGE}"),
    }
    eprintln!("done in {} s", started.elapsed().as_secs());
    Ok(())
}

fn test() -> anyhow::Result<()> {
    prepare::all()?;
    check::all()?;
    process::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    // With all targets, as the tests are built, so that nothing is built twice: the tests start the program itself.
    process::cargo(&["build", "--workspace", "--all-targets"])?;
    process::cargo(&["test", "--workspace", "--no-fail-fast"])
}
