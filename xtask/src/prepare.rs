//! What the tests need beside Rust: installed if it is missing, left alone if it is there.
//!
//! Packages come from the system's package manager; the Python client goes into a virtual environment in the
//! target directory, where the tests look for it.

use std::path::Path;

use anyhow::{Context, bail};

use crate::process::{run, target_directory, works};

/// A package, and how to see that it is not needed.
struct Need {
    package: &'static str,
    met: fn() -> bool,
}

const NEEDS: [Need; 11] = [
    Need { package: "build-essential", met: || works("cc", &["--version"]) && works("make", &["--version"]) },
    Need { package: "python3", met: || works("python3", &["--version"]) },
    Need { package: "python3-venv", met: || works("python3", &["-c", "import ensurepip, venv"]) },
    Need { package: "kubernetes-client", met: kubectl_is_there },
    // What images for tests are made of; it must not need anything that an image would have to bring.
    Need { package: "busybox-static", met: || works("busybox", &["true"]) },
    // The other runtime that the CRI is spoken to.
    Need { package: "containerd", met: || works("containerd", &["--version"]) },
    Need { package: "runc", met: || works("runc", &["--version"]) },
    // What connects the pods of that other runtime.
    Need { package: "containernetworking-plugins", met: || Path::new("/usr/lib/cni/ptp").exists() },
    // A kernel as a process, for what this machine's own kernel is not set up for.
    Need { package: "user-mode-linux", met: || works("linux.uml", &["--version"]) },
    // It says whether the default AppArmor profile makes sense.
    Need { package: "apparmor", met: || works("apparmor_parser", &["--version"]) },
    // The proxy's other way to make rules.
    Need { package: "iptables", met: || works("iptables", &["--version"]) },
];

pub(crate) fn all() -> anyhow::Result<()> {
    packages()?;
    python_client()
}

fn packages() -> anyhow::Result<()> {
    let missing: Vec<&str> = NEEDS.iter().filter(|need| !(need.met)()).map(|need| need.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !works("apt-get", &["--version"]) {
        bail!("the tests need what Debian calls {}; install it and try again", missing.join(", "));
    }
    let install = || -> anyhow::Result<()> {
        run("apt-get", &["update"])?;
        run("apt-get", &[&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
    };
    install().with_context(|| format!("installing {}; this needs root", missing.join(", ")))
}

/// The tests take every kubectl that `KUBECTLS` names, or the one on `PATH`.
fn kubectl_is_there() -> bool {
    std::env::var_os("KUBECTLS").is_some() || works("kubectl", &["version", "--client"])
}

fn python_client() -> anyhow::Result<()> {
    let environment = target_directory().join("python");
    let python = environment.join("bin/python3");
    if works(&python, &["-c", "import kubernetes"]) {
        return Ok(());
    }
    run("python3", &["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), environment.as_os_str()])?;
    run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "kubernetes"])
}
