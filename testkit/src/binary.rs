//! The binary under test: beside the running test, built from the same sources.
//!
//! `CORTEN_BIN` names another one, such as a release build. Otherwise the binary is built first,
//! so that no test uses an outdated server.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `corten` to test; built at the first call.
pub fn corten_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("CORTEN_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository's root")
}

/// The target directory that the running test was built in.
pub fn target_directory() -> PathBuf {
    let profile = profile_directory();
    profile.parent().expect("a profile's directory is in the target directory").to_owned()
}

/// `target/<profile>`: tests run from its `deps`.
fn profile_directory() -> PathBuf {
    let test = env::current_exe().expect("a process knows its executable");
    test.ancestors().nth(2).expect("tests are built in target/<profile>/deps").to_owned()
}

/// A test, which makes cargo select the features of tests for all that it builds.
const ANY_TEST: &str = "cli";

/// Selects the whole workspace and a test, as the test command does, so that features and therefore dependencies are those
/// already built.
fn build() -> PathBuf {
    let directory = profile_directory();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "corten",
            "--test",
            ANY_TEST,
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(target_directory())
        .current_dir(repository())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "corten cannot be built:\n{}", String::from_utf8_lossy(&output.stderr));
    directory.join("corten")
}
