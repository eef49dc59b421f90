//! The checks of each level and version, in the order of their messages.

use super::policy::{Level, LevelVersion, Version};
use super::{baseline, restricted};
use corten_api::Value;

/// A violation of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    /// The short reason.
    pub reason: &'static str,
    /// The fields, and the allowed values.
    pub detail: String,
}

/// The result of a check of a pod or pod template: an object with metadata and a spec.
pub(super) type Finding = Option<Violation>;

/// A rule, and the minor version since which it applies.
type Since = (u32, fn(&Value) -> Finding);

/// One rule of a level, which may have changed over time.
struct Check {
    id: &'static str,
    level: Level,
    /// The rule since each minor version, oldest first.
    since: &'static [Since],
    /// The baseline check that this one makes stricter.
    replaces: &'static str,
}

const fn check(id: &'static str, level: Level, since: &'static [Since], replaces: &'static str) -> Check {
    Check { id, level, since, replaces }
}

const BASELINE: Level = Level::Baseline;
const RESTRICTED: Level = Level::Restricted;

/// Baseline before restricted, each by name.
///
/// Upstream lets a pod with `hostUsers: false` off three of them since 1.35 (`procMount`, `runAsNonRoot`, `runAsUser`),
/// because root of a user namespace is not root of the node. No pod has a user namespace of its own here yet, so the
/// field protects nothing and excuses nothing.
static CHECKS: [Check; 19] = [
    check("appArmorProfile", BASELINE, &[(0, baseline::app_armor_profile)], ""),
    check("capabilities_baseline", BASELINE, &[(0, baseline::capabilities)], ""),
    check("hostNamespaces", BASELINE, &[(0, baseline::host_namespaces)], ""),
    check("hostPathVolumes", BASELINE, &[(0, baseline::host_path_volumes)], ""),
    check("hostPorts", BASELINE, &[(0, baseline::host_ports)], ""),
    check("hostProbesAndHostLifecycle", BASELINE, &[(34, baseline::probe_hosts)], ""),
    check("privileged", BASELINE, &[(0, baseline::privileged)], ""),
    check("procMount", BASELINE, &[(0, baseline::proc_mount)], ""),
    check("seLinuxOptions", BASELINE, &[(0, baseline::se_linux), (31, baseline::se_linux_1_31)], ""),
    check("seccompProfile_baseline", BASELINE, &[(0, baseline::seccomp), (19, baseline::seccomp_1_19)], ""),
    check(
        "sysctls",
        BASELINE,
        &[
            (0, baseline::sysctls),
            (27, baseline::sysctls_1_27),
            (29, baseline::sysctls_1_29),
            (32, baseline::sysctls_1_32),
            (37, baseline::sysctls_1_37),
        ],
        "",
    ),
    check("windowsHostProcess", BASELINE, &[(0, baseline::windows_host_process)], ""),
    check(
        "allowPrivilegeEscalation",
        RESTRICTED,
        &[(8, restricted::privilege_escalation), (25, restricted::privilege_escalation_1_25)],
        "",
    ),
    check(
        "capabilities_restricted",
        RESTRICTED,
        &[(22, restricted::capabilities), (25, restricted::capabilities_1_25)],
        "capabilities_baseline",
    ),
    check("procMount_restricted", RESTRICTED, &[(35, baseline::proc_mount)], "procMount"),
    check("restrictedVolumes", RESTRICTED, &[(0, restricted::volumes)], "hostPathVolumes"),
    check("runAsNonRoot", RESTRICTED, &[(0, restricted::run_as_non_root)], ""),
    check("runAsUser", RESTRICTED, &[(23, restricted::run_as_user)], ""),
    check(
        "seccompProfile_restricted",
        RESTRICTED,
        &[(19, restricted::seccomp), (25, restricted::seccomp_1_25)],
        "seccompProfile_baseline",
    ),
];

impl Check {
    /// The rule as of a minor version, if there was one.
    fn as_of(&self, minor: u32) -> Option<fn(&Value) -> Finding> {
        self.since.iter().rev().find(|(since, _)| *since <= minor).map(|(_, rule)| *rule)
    }
}

/// All violations of a pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The short reasons, for messages about many pods.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|v| v.reason).collect::<Vec<_>>().join(", ")
    }

    /// The reasons with their details, for one pod.
    pub(super) fn detail(&self) -> String {
        let message = |v: &Violation| match v.detail.as_str() {
            "" => v.reason.to_owned(),
            detail => format!("{} ({detail})", v.reason),
        };
        self.0.iter().map(message).collect::<Vec<_>>().join(", ")
    }
}

/// Checks a pod or pod template against a level.
pub(super) fn evaluate(at: LevelVersion, pod: &Value) -> Violations {
    if at.level == Level::Privileged {
        return Violations::default();
    }
    let minor = match at.version {
        Version::Latest => u32::MAX,
        Version::Minor(minor) => minor,
    };
    let replaced = |id: &str| {
        at.level == RESTRICTED && CHECKS.iter().any(|c| c.replaces == id && c.as_of(minor).is_some())
    };
    let applies = |check: &&Check| check.level <= at.level && !replaced(check.id);
    let rules = CHECKS.iter().filter(applies).filter_map(|check| check.as_of(minor));
    Violations(rules.filter_map(|rule| rule(pod)).collect())
}

/// `"a", "b"`.
pub(super) fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    quoted.join(", ")
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers_named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

pub(super) fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}
