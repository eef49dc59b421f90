//! Running programs: said before, failed loudly.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The repository's root.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where things are built.
pub(crate) fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => repository().join(directory),
        None => repository().join("target"),
    }
}

/// Runs cargo in the repository's root.
pub(crate) fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(cargo, arguments)
}

/// Runs a program in the repository's root; anything but success is an error.
pub(crate) fn run<P: AsRef<OsStr>, A: AsRef<OsStr>>(program: P, arguments: &[A]) -> anyhow::Result<()> {
    let mut said = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in arguments {
        said.push(' ');
        said.push_str(&argument.as_ref().to_string_lossy());
    }
    eprintln!("==> {said}");
    let status = Command::new(program.as_ref())
        .args(arguments)
        .current_dir(repository())
        .status()
        .with_context(|| format!("starting {said}"))?;
    if !status.success() {
        bail!("{said}: {status}");
    }
    Ok(())
}

/// Whether a program runs and ends well, saying nothing.
pub(crate) fn works<P: AsRef<OsStr>>(program: P, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).current_dir(repository()).output();
    output.is_ok_and(|output| output.status.success())
}
