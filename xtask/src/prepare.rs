//! Installs what the tests need beside Rust, where the machine does not have it.
//!
//! Packages come from the system's package manager and are checked again after the installation; the Python client goes
//! into a virtual environment in the target directory, where the tests expect it. A package whose property is already met
//! is never installed.

mod tools;

use anyhow::{Context, bail, ensure};

use crate::process::{run, target_directory, works};
use tools::{NEEDS, Need};

pub(crate) fn all() -> anyhow::Result<()> {
    packages()?;
    let unusable = tools::unusable_kubectls();
    ensure!(unusable.is_empty(), "KUBECTLS names programs that are not kubectl 1.20 or newer: {unusable:?}");
    python("python", "from kubernetes import client, config, dynamic, watch", &["kubernetes"])?;
    // Apart from the client, which needs other versions of the same packages.
    python("s3", "import boto3, flask, flask_cors, moto.s3", &["moto[s3]", "flask", "flask-cors"])
}

fn packages() -> anyhow::Result<()> {
    let missing = unmet();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !works("apt-get", &["--version"]) {
        bail!("the tests need these Debian packages or their equivalents:\n{}", described(&missing));
    }
    let install = || -> anyhow::Result<()> {
        run("apt-get", &["update"])?;
        run("apt-get", &[&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat())
    };
    install().with_context(|| format!("cannot install {} (this needs root)", packages.join(", ")))?;
    let missing = unmet();
    ensure!(missing.is_empty(), "installed, but not usable by the tests:\n{}", described(&missing));
    Ok(())
}

fn unmet() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_met)()).collect()
}

fn described(needs: &[&Need]) -> String {
    needs.iter().map(|need| format!("  {}: {}", need.package, need.property)).collect::<Vec<_>>().join("\n")
}

/// Installs packages from PyPI into a virtual environment, unless a program with their imports works there.
fn python(environment: &str, imports: &str, packages: &[&str]) -> anyhow::Result<()> {
    let environment = target_directory().join(environment);
    let python = environment.join("bin/python3");
    if works(&python, &["-c", imports]) {
        return Ok(());
    }
    run("python3", &["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), environment.as_os_str()])?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(&python, &[&install[..], packages].concat())
}
