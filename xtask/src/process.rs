//! Running programs: printed before they start, and an error when they fail.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The repository's root.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The directory of build results.
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
    let mut line = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(&argument.as_ref().to_string_lossy());
    }
    eprintln!("==> {line}");
    let status = Command::new(program.as_ref())
        .args(arguments)
        .current_dir(repository())
        .status()
        .with_context(|| format!("cannot start {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Returns true if a program runs and succeeds; its output is discarded.
pub(crate) fn works<P: AsRef<OsStr>>(program: P, arguments: &[&str]) -> bool {
    written_by(program, arguments, &[]).is_some()
}

/// The stdout of a program that succeeds without input, with these variables in its environment.
pub(crate) fn written_by<P: AsRef<OsStr>>(
    program: P,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(repository())
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns true if a program succeeds with this text on its stdin; its output is discarded.
pub(crate) fn works_with_input(program: &str, arguments: &[&str], input: &str) -> bool {
    let child = Command::new(program)
        .args(arguments)
        .current_dir(repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input to the end fails by itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}
