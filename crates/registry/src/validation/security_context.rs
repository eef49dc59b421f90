//! Security contexts of pods and containers.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::any_of;
use crate::validation::internal_form;
use crate::validation::number::{id, optional_id};
use crate::validation::pod_context::{PodContext, is};
use crate::validation::repeats::Repeats;
use crate::validation::security_profile::{validate_apparmor_profile, validate_seccomp_profile};
use crate::validation::text::{list, member, text};
use crate::validation::tolerance;
use crate::validation::windows::validate_windows_options;

pub(crate) fn validate_pod_security_context(
    context: &PodContext<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(security) = context.spec.get("securityContext") else { return };
    if security.as_object().is_none_or(|security| security.is_empty()) {
        return;
    }
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        optional_id(security, key, at, errors);
    }
    for (i, group) in list(security, "supplementalGroups").iter().enumerate() {
        id(group.as_int().unwrap_or(0), &at.child("supplementalGroups").index(i), errors);
    }
    validate_sysctls(context, list(security, "sysctls"), &at.child("sysctls"), errors);
    any_of(security, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], at, errors);
    validate_seccomp_profile(security, at, errors);
    validate_windows_options(security, at, errors);
    validate_apparmor_profile(security, at, errors);
    any_of(security, "supplementalGroupsPolicy", &["Merge", "Strict"], at, errors);
    any_of(security, "seLinuxChangePolicy", &["MountOption", "Recursive"], at, errors);
}

fn validate_sysctls(context: &PodContext<'_>, sysctls: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(sysctls, |item| text(item, "name"));
    for (i, sysctl) in sysctls.iter().enumerate() {
        let (name, at) = (text(sysctl, "name"), at.index(i));
        if name.is_empty() {
            errors.required(at.child("name"), "");
        } else if !is_sysctl_name(name) {
            let why = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(at.child("name"), &Value::from(name), why);
        } else if repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
        let complaint = host_sysctl_complaint(name, context.spec);
        if let Some(why) = complaint.filter(|_| !context.old(tolerance::host_sysctls)) {
            errors.invalid(at.child("name"), &Value::from(name), why);
        }
    }
}

/// Segments separated by dots or slashes.
fn is_sysctl_name(name: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let segment = |segment: &str| match segment.as_bytes() {
        [] => false,
        [only] => end(*only),
        [first, middle @ .., last] => {
            end(*first) && end(*last) && middle.iter().all(|b| end(*b) || matches!(b, b'-' | b'_'))
        }
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}

/// The reason for which a sysctl of a namespace cannot be set where that namespace is the host's.
pub(crate) fn host_sysctl_complaint(name: &str, spec: &Value) -> Option<&'static str> {
    const IPC: [&str; 3] = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    // The first separator determines the meaning of the others.
    let dotted = match name.find(['.', '/']) {
        Some(i) if name.as_bytes().get(i) == Some(&b'/') => {
            let swap = |c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            };
            name.chars().map(swap).collect::<String>()
        }
        _ => name.to_owned(),
    };
    if dotted.starts_with("net.") {
        return is(spec, "hostNetwork").then_some("may not be specified when 'hostNetwork' is true");
    }
    let ipc = dotted == "kernel.sem" || IPC.into_iter().any(|prefix| dotted.starts_with(prefix));
    (ipc && is(spec, "hostIPC")).then_some("may not be specified when 'hostIPC' is true")
}

pub(crate) fn validate_security_context(
    context: &PodContext<'_>,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(security) = member(container, "securityContext") else { return };
    for key in ["runAsUser", "runAsGroup"] {
        optional_id(security, key, at, errors);
    }
    any_of(security, "procMount", &["Default", "Unmasked"], at, errors);
    if text(security, "procMount") == "Unmasked" && context.host_users() {
        let why = "`hostUsers` must be false to use `Unmasked`";
        errors.invalid(at.child("procMount"), &Value::from("Unmasked"), why);
    }
    validate_seccomp_profile(security, at, errors);
    if security.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false) {
        validate_without_escalation(context, security, at, errors);
    }
    validate_windows_options(security, at, errors);
    validate_apparmor_profile(security, at, errors);
}

/// Privileges that imply escalation cannot be combined with `allowPrivilegeEscalation: false`.
fn validate_without_escalation(
    context: &PodContext<'_>,
    security: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut refuse = |what: &str| {
        let shown = internal_form::compact("SecurityContext", security);
        errors.invalid_shown(at, shown, format!("cannot set `allowPrivilegeEscalation` to false and {what}"));
    };
    if is(security, "privileged") {
        refuse("`privileged` to true");
    }
    let added = security.items_at(&["capabilities", "add"]);
    for _ in added.iter().filter(|capability| capability.as_str() == Some("CAP_SYS_ADMIN")) {
        if !context.old(tolerance::sys_admin_without_escalation) {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}
