//! The programs that the tests run, the Debian packages that contain them, and the property that each must have.
//!
//! A program that only exists is not enough: another package or an older release may bring one of the same name that
//! cannot do what the tests need.

#[path = "../../../crates/container/src/image/busybox/elf.rs"]
mod elf;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{target_directory, works, works_with_input, written_by};

/// A package, the property that the tests need of it, and the check of that property.
pub(super) struct Need {
    pub(super) package: &'static str,
    pub(super) property: &'static str,
    pub(super) is_met: fn() -> bool,
}

/// All needs, in the order in which they are checked.
pub(super) const NEEDS: [Need; 14] = [
    Need {
        package: "build-essential",
        property: "cc compiles and links C programs, and make runs",
        is_met: || compiles() && works("make", &["--version"]),
    },
    Need { package: "mount", property: "mount and umount run", is_met: mounts },
    Need {
        package: "bsdutils",
        property: "script runs commands on a terminal",
        is_met: || works("script", &["-qec", "true", "/dev/null"]),
    },
    Need {
        package: "python3",
        property: "python3 is 3.8 or newer and speaks TLS",
        is_met: || {
            works("python3", &["-c", "import sys, ssl, urllib.request; sys.exit(sys.version_info < (3, 8))"])
        },
    },
    Need {
        package: "python3-venv",
        property: "python3 creates virtual environments with pip",
        is_met: || works("python3", &["-c", "import ensurepip, venv"]),
    },
    Need {
        package: "kubernetes-client",
        property: "the kubectl on PATH is 1.20 or newer",
        is_met: || kubectl_is_recent("kubectl"),
    },
    // The images of tests contain nothing else, so it must not need a shared library.
    Need {
        package: "busybox-static",
        property: "a busybox on PATH is statically linked and has the applets of the tests",
        is_met: || busybox_is_static(&std::env::var_os("PATH").unwrap_or_default()),
    },
    // The runtime at the other side of the CRI.
    Need {
        package: "containerd",
        property: "containerd is 1.6 or newer, which speaks CRI v1, and ctr runs",
        is_met: || is_at_least("containerd", &["--version"], (1, 6)) && works("ctr", &["--version"]),
    },
    Need {
        package: "runc",
        property: "/usr/sbin/runc is 1.1 or newer",
        is_met: || is_at_least("/usr/sbin/runc", &["--version"], (1, 1)),
    },
    Need {
        package: "containernetworking-plugins",
        property: "the plugins in /usr/lib/cni support CNI 0.4.0",
        is_met: || {
            ["bridge", "host-local", "loopback", "portmap", "ptp"].iter().all(|name| cni_plugin_works(name))
        },
    },
    // The datastore of the tests of the etcd engine.
    Need {
        package: "etcd-server",
        property: "etcd is 3.4 or newer",
        is_met: || is_at_least("etcd", &["--version"], (3, 4)),
    },
    // A kernel as a process, for the tests of cgroup version 2 on machines that have version 1.
    Need {
        package: "user-mode-linux",
        property: "linux.uml runs and has its overlay module, unless this machine has only cgroup version 2",
        is_met: || Path::new("/sys/fs/cgroup/cgroup.controllers").exists() || user_mode_linux_has_overlay(),
    },
    Need { package: "apparmor", property: "apparmor_parser compiles profiles", is_met: apparmor_compiles },
    Need {
        package: "iptables",
        property: "iptables and ip6tables are 1.8 or newer and write nf_tables rules \
                   (update-alternatives --config iptables selects the variant)",
        is_met: || ["iptables", "ip6tables"].iter().all(|name| iptables_writes_nftables(name)),
    },
];

/// Applets that containers of tests and the tests themselves run.
const APPLETS: [&str; 36] = [
    "cat", "chmod", "dd", "echo", "env", "grep", "head", "hostname", "httpd", "id", "insmod", "ip", "kill",
    "ln", "ls", "mkdir", "mknod", "mount", "nc", "nslookup", "ps", "rm", "seq", "sh", "sleep", "stat",
    "stty", "tail", "tar", "test", "timeout", "touch", "true", "umount", "wc", "wget",
];

/// Every kubectl in `KUBECTLS` that is not one or is too old; the tests run all of them.
pub(super) fn unusable_kubectls() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECTLS").unwrap_or_default();
    std::env::split_paths(&named)
        .filter(|kubectl| !kubectl.as_os_str().is_empty() && !kubectl_is_recent(kubectl))
        .collect()
}

fn compiles() -> bool {
    let source = "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n";
    let program = target_directory().join("xtask-prepare-cc");
    let written = program.to_string_lossy().into_owned();
    let compiles = works_with_input("cc", &["-x", "c", "-o", &written, "-"], source);
    compiles && std::fs::remove_file(program).is_ok()
}

fn mounts() -> bool {
    works("mount", &["--version"]) && works("umount", &["--version"])
}

fn kubectl_is_recent(kubectl: impl AsRef<OsStr>) -> bool {
    written_by(kubectl, &["version", "--client", "-o", "json"], &[])
        .and_then(|text| kubectl_version(&text))
        .is_some_and(|version| version >= (1, 20))
}

/// The client's version in the output of `kubectl version --client -o json`; vendors append to the minor version.
fn kubectl_version(text: &str) -> Option<(u32, u32)> {
    let version: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| {
        let text = version["clientVersion"][name].as_str()?;
        text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    };
    Some((number("major")?, number("minor")?))
}

/// Finds the busybox that `corten_container::image::busybox_archive` would take.
fn busybox_is_static(path: &OsStr) -> bool {
    let is_static = |file: &PathBuf| std::fs::read(file).is_ok_and(|bytes| elf::is_static_executable(&bytes));
    let Some(busybox) = std::env::split_paths(path).map(|folder| folder.join("busybox")).find(is_static)
    else {
        return false;
    };
    let applets = written_by(busybox, &["--list"], &[]).unwrap_or_default();
    APPLETS.iter().all(|applet| applets.lines().any(|line| line == *applet))
}

fn cni_plugin_works(name: &str) -> bool {
    let plugin = Path::new("/usr/lib/cni").join(name);
    written_by(plugin, &[], &[("CNI_COMMAND", "VERSION")]).is_some_and(|text| supports_cni(&text, "0.4.0"))
}

/// True if a plugin's answer to `VERSION` lists the version.
fn supports_cni(text: &str, version: &str) -> bool {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    answer["supportedVersions"].as_array().is_some_and(|versions| versions.iter().any(|one| one == version))
}

fn user_mode_linux_has_overlay() -> bool {
    written_by("linux.uml", &["--version"], &[]).is_some_and(|version| {
        let modules = Path::new("/usr/lib/uml/modules").join(version.trim());
        modules.join("kernel/fs/overlayfs/overlay.ko").exists()
    })
}

fn apparmor_compiles() -> bool {
    let profile = "profile corten-check flags=(attach_disconnected) { file, }\n";
    works_with_input("apparmor_parser", &["--skip-kernel-load", "--skip-cache"], profile)
}

fn iptables_writes_nftables(name: &str) -> bool {
    ["", "-save", "-restore"].iter().all(|companion| {
        written_by(format!("{name}{companion}"), &["--version"], &[]).is_some_and(|text| {
            text.contains("(nf_tables)") && version_in(&text).is_some_and(|version| version >= (1, 8))
        })
    })
}

fn is_at_least(program: &str, arguments: &[&str], least: (u32, u32)) -> bool {
    written_by(program, arguments, &[])
        .and_then(|text| version_in(&text))
        .is_some_and(|version| version >= least)
}

/// The major and minor number of the first word that looks like a version, such as `v1.8.9` or `1.6.20~ds1`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.trim_start_matches('v').split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some((major, minor[..digits].parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let check = |text: &str, expected| assert_eq!(version_in(text), expected, "{text:?}");
        check("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n", Some((1, 6)));
        check("containerd github.com/containerd/containerd/v2 v2.1.0-rc.0 abc\n", Some((2, 1)));
        check("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\n", Some((1, 1)));
        check("runc version 1.3-dev", Some((1, 3)));
        check("ip6tables v1.8.9 (nf_tables)\n", Some((1, 8)));
        check("no version here: 12 x.y", None);
    }

    #[test]
    fn kubectls_versions_may_have_suffixes() {
        let check = |text: &str, expected| assert_eq!(kubectl_version(text), expected, "{text:?}");
        check(
            r#"{"clientVersion": {"major": "1", "minor": "32+", "gitVersion": "v1.32.4-dispatcher"}}"#,
            Some((1, 32)),
        );
        check(r#"{"clientVersion": {"major": "1", "minor": "20"}}"#, Some((1, 20)));
        check(r#"{"clientVersion": {"major": "1", "minor": ""}}"#, None);
        check("Client Version: v1.19.0", None);
    }

    #[test]
    fn plugins_list_their_versions() {
        let answer = r#"{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}"#;
        assert!(supports_cni(answer, "0.4.0"));
        assert!(!supports_cni(answer, "1.1.0"));
        assert!(!supports_cni("not JSON", "0.4.0"));
    }

    #[test]
    fn a_dynamic_busybox_does_not_count() {
        // Programs of tests are linked dynamically, like Debian's `busybox`.
        let folder = target_directory().join(format!("xtask-prepare-busybox-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), folder.join("busybox")).unwrap();
        let met = busybox_is_static(folder.as_os_str());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!met);
    }

    #[test]
    fn needs_are_named_once() {
        let mut packages: Vec<&str> = NEEDS.iter().map(|need| need.package).collect();
        packages.sort_unstable();
        packages.dedup();
        assert_eq!(packages.len(), NEEDS.len());
    }
}
