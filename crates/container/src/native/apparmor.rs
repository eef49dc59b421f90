//! AppArmor: the profile that confines a container, and the default profile, which is loaded when it is first needed.
//!
//! *Invariant:* a requested profile is in force, or the container does not start.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{Error, Result, SecurityProfile};

/// The name of the profile for containers that request none, or the runtime's default.
const DEFAULT: &str = "corten-default";

/// The default profile: it denies mounts, and access to the node through the kernel's file systems. Capabilities and
/// other restrictions apply as well.
const DEFAULT_PROFILE: &str = "\
#include <tunables/global>

profile corten-default flags=(attach_disconnected,mediate_deleted) {
  #include <abstractions/base>

  network,
  capability,
  file,
  umount,

  # The node ends its containers, and the processes of a container may signal and trace each other.
  signal (receive) peer=unconfined,
  signal (send, receive) peer=corten-default,
  ptrace (trace, read, tracedby, readby) peer=corten-default,

  deny mount,

  deny @{PROC}/* w,
  deny @{PROC}/{[^1-9],[^1-9][^0-9],[^1-9s][^0-9y][^0-9s],[^1-9][^0-9][^0-9][^0-9]*}/** w,
  deny @{PROC}/sys/[^k]** w,
  deny @{PROC}/sys/kernel/{?,??,[^s][^h][^m]**} w,
  deny @{PROC}/sysrq-trigger rwklx,
  deny @{PROC}/kcore rwklx,

  deny /sys/[^f]*/** wklx,
  deny /sys/f[^s]*/** wklx,
  deny /sys/fs/[^c]*/** wklx,
  deny /sys/fs/c[^g]*/** wklx,
  deny /sys/fs/cg[^r]*/** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/devices/virtual/powercap/** rwklx,
  deny /sys/kernel/security/** rwklx,
}
";

/// The profile of a container's processes; empty for none.
pub(super) fn profile(asked: Option<&SecurityProfile>, privileged: bool) -> Result<String> {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    match decide(asked, privileged, enabled.trim() == "Y")? {
        Decision::Unconfined => Ok(String::new()),
        Decision::Loaded(name) => match is_loaded(&name) {
            true => Ok(name),
            false => Err(Error::FailedPrecondition(format!("apparmor profile not found {name}"))),
        },
        Decision::Default { required } => match load_default() {
            Ok(()) => Ok(DEFAULT.to_owned()),
            Err(error) if required => {
                let text = format!("cannot load the default apparmor profile: {error}");
                Err(Error::FailedPrecondition(text))
            }
            Err(_) => Ok(String::new()),
        },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Unconfined,
    /// A profile that the node's administrator has loaded.
    Loaded(String),
    /// The default profile; a container starts without it only if it did not request it.
    Default {
        required: bool,
    },
}

fn decide(asked: Option<&SecurityProfile>, privileged: bool, enabled: bool) -> Result<Decision> {
    match asked {
        Some(SecurityProfile::Unconfined) => Ok(Decision::Unconfined),
        _ if privileged => Ok(Decision::Unconfined),
        None if enabled => Ok(Decision::Default { required: false }),
        None => Ok(Decision::Unconfined),
        Some(_) if !enabled => {
            Err(Error::FailedPrecondition("apparmor is not supported on this node".to_owned()))
        }
        Some(SecurityProfile::RuntimeDefault) => Ok(Decision::Default { required: true }),
        Some(SecurityProfile::Localhost(name)) => {
            Ok(Decision::Loaded(name.trim_start_matches("localhost/").to_owned()))
        }
    }
}

fn is_loaded(name: &str) -> bool {
    let profiles = fs::read_to_string("/sys/kernel/security/apparmor/profiles").unwrap_or_default();
    profiles.lines().any(|line| line.rsplit_once(" (").is_some_and(|(loaded, _)| loaded == name))
}

/// Loads the default profile, once.
fn load_default() -> std::result::Result<(), String> {
    static LOADED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let load = || {
        let loaded = parse(&["--replace", "--skip-cache"]);
        if let Err(error) = &loaded {
            tracing::warn!(err = %error, "cannot load default AppArmor profile; containers that do not request it run unconfined");
        }
        loaded
    };
    LOADED.get_or_init(load).clone()
}

fn parse(options: &[&str]) -> std::result::Result<(), String> {
    let mut parser = Command::new("apparmor_parser");
    parser.args(options).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = parser.spawn().map_err(|error| format!("running apparmor_parser: {error}"))?;
    if let Some(mut input) = running.stdin.take() {
        // A parser that does not read its input reports that itself.
        let _ = input.write_all(DEFAULT_PROFILE.as_bytes());
    }
    let ended = running.wait_with_output().map_err(|error| format!("running apparmor_parser: {error}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("apparmor_parser: {}", String::from_utf8_lossy(&ended.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_profile_is_in_force_or_refused() {
        let localhost = SecurityProfile::Localhost("localhost/mine".to_owned());
        let check = |asked, privileged, enabled, expected: Option<Decision>| {
            assert_eq!(decide(asked, privileged, enabled).ok(), expected, "{asked:?} {privileged} {enabled}");
        };
        check(None, false, true, Some(Decision::Default { required: false }));
        check(None, false, false, Some(Decision::Unconfined));
        check(
            Some(&SecurityProfile::RuntimeDefault),
            false,
            true,
            Some(Decision::Default { required: true }),
        );
        check(Some(&SecurityProfile::RuntimeDefault), false, false, None);
        check(Some(&localhost), false, true, Some(Decision::Loaded("mine".to_owned())));
        check(Some(&localhost), false, false, None);
        check(Some(&SecurityProfile::Unconfined), false, false, Some(Decision::Unconfined));
        check(Some(&localhost), true, true, Some(Decision::Unconfined));
    }

    /// The parser accepts it; a kernel's enforcement is not tested here.
    #[test]
    fn the_default_profile_compiles() {
        parse(&["--skip-kernel-load", "--skip-cache"]).unwrap();
    }
}
