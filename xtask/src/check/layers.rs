//! Dependencies point down: a crate sees only crates of lower layers.
//!
//! The table is that of `docs/architecture.md`. A crate that is not in it fails the check; so do a name in it without a
//! crate and a dependency on a crate of the same layer.

use std::fmt::Write;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::process::repository;

/// Crates by layer, lowest first.
pub(super) const LAYERS: [&[&str]; 8] = [
    &["corten-base", "corten-grpc", "corten-sys"],
    &[
        "corten-api",
        "corten-backup",
        "corten-descriptions",
        "corten-etcd-api",
        "corten-pki",
        "corten-container",
        "corten-net",
        "corten-serving",
    ],
    &["corten-cel", "corten-encryption", "corten-store"],
    &[
        "corten-auth",
        "corten-etcd",
        "corten-quota",
        "corten-client",
        "corten-customresources",
        "corten-policies",
    ],
    &["corten-registry"],
    &["corten-apiserver", "corten-reconcile"],
    &[
        "corten-bench",
        "corten-controllers",
        "corten-scheduler",
        "corten-simulator",
        "corten-kubelet",
        "corten-policy",
        "corten-proxy",
        "corten-dns",
    ],
    &["corten"],
];

/// Tests and tools, which may depend on all crates; other crates depend on them only for their tests.
const OUTSIDE: [&str; 7] = [
    "corten-testkit",
    "corten-testkit-containerd",
    "corten-testkit-packets",
    "corten-testkit-sctp",
    "corten-e2e",
    "corten-fuzz-replay",
    "xtask",
];

/// The API server and its store, which clients never see: they use the Kubernetes API.
const SERVER: [&str; 2] = ["corten-apiserver", "corten-store"];
/// The layer of the clients.
const CLIENTS: usize = 6;

pub(crate) fn check() -> anyhow::Result<()> {
    let packages = packages()?;
    let found = violations(&packages);
    ensure!(found.is_empty(), "dependencies must point down:\n{found}");
    let absent = absent(&packages);
    ensure!(
        absent.is_empty(),
        "the table in {} names crates that do not exist: {}",
        file!(),
        absent.join(", ")
    );
    Ok(())
}

struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    for_tests: bool,
}

fn violations(packages: &[Package]) -> String {
    let mut found = String::new();
    let mut complain = |line: String| {
        // Cannot fail: the target is a string.
        let _ = writeln!(found, "  {line}");
    };
    for package in packages.iter().filter(|package| !OUTSIDE.contains(&package.name.as_str())) {
        let Some(layer) = layer_of(&package.name) else {
            complain(format!("{} is in no layer: add it to the table in {}", package.name, file!()));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let Some(below) = layer_of(name) else {
                if OUTSIDE.contains(&name) && !dependency.for_tests {
                    complain(format!("{} needs {name}, which is for tests", package.name));
                }
                continue;
            };
            if below >= layer {
                complain(format!("{} (layer {layer}) needs {name} (layer {below})", package.name));
            } else if layer == CLIENTS && SERVER.contains(&name) && !dependency.for_tests {
                complain(format!(
                    "{} is a client of the Kubernetes API and must not see {name}",
                    package.name
                ));
            }
        }
    }
    found
}

/// Names in the tables without a crate.
fn absent(packages: &[Package]) -> Vec<&'static str> {
    let exists = |name: &str| packages.iter().any(|package| package.name == name);
    LAYERS.into_iter().flatten().chain(&OUTSIDE).copied().filter(|name| !exists(name)).collect()
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn packages() -> anyhow::Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(repository())
        .output()
        .context("starting cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependencies = value["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    Package {
        name: text(&value["name"]),
        dependencies: dependencies
            .iter()
            .map(|d| Dependency { name: text(&d["name"]), for_tests: d["kind"] == "dev" })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(package: &str, dependency: &str, for_tests: bool, expected: &str) {
        let dependencies = vec![Dependency { name: dependency.to_owned(), for_tests }];
        let found = violations(&[Package { name: package.to_owned(), dependencies }]);
        assert!(
            if expected.is_empty() { found.is_empty() } else { found.contains(expected) },
            "{package} → {dependency}: {found:?}"
        );
    }

    #[test]
    fn dependencies_point_down() {
        check("corten-apiserver", "corten-api", false, "");
        check("corten-apiserver", "hyper", false, "");
        check("corten", "corten-apiserver", false, "");
        check("corten-api", "corten-apiserver", false, "layer 1) needs corten-apiserver (layer 5");
        check("corten-api", "corten-pki", false, "layer 1) needs corten-pki (layer 1");
        check("corten-api", "corten-pki", true, "layer 1) needs corten-pki (layer 1");
        check("corten-scheduler", "corten-store", false, "must not see corten-store");
        check("corten-scheduler", "corten-kubelet", false, "layer 6) needs corten-kubelet");
        check("corten-api", "corten-testkit", false, "is for tests");
        check("corten-api", "corten-testkit", true, "");
        check("corten-e2e", "corten", false, "");
        check("corten-novelty", "corten-base", false, "is in no layer");
    }

    #[test]
    fn names_without_a_crate_are_found() {
        let package = |name: &str| Package { name: name.to_owned(), dependencies: Vec::new() };
        let mut packages: Vec<Package> =
            LAYERS.into_iter().flatten().chain(&OUTSIDE).map(|name| package(name)).collect();
        assert_eq!(absent(&packages), Vec::<&str>::new());
        packages.retain(|package| package.name != "corten-dns");
        assert_eq!(absent(&packages), ["corten-dns"]);
    }
}
