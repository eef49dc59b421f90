//! Differences between Windows and Linux.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::pod_context::{PodContext, is, visit_containers};
use crate::validation::text::{complain, list, member};

/// The member `windowsOptions` of a security context.
pub(crate) fn validate_windows_options(security: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_KIB: usize = 64;
    let Some(options) = member(security, "windowsOptions") else { return };
    let at = at.child("windowsOptions");
    let option = |key: &str| options.get(key).and_then(Value::as_str);
    if let Some(name) = option("gmsaCredentialSpecName") {
        complain(&at.child("gmsaCredentialSpecName"), name, names::dns1123_subdomain(name), errors);
    }
    let why = match option("gmsaCredentialSpec") {
        Some("") => "gmsaCredentialSpec cannot be an empty string".to_owned(),
        Some(spec) if spec.len() > MOST_KIB * 1024 => {
            format!("gmsaCredentialSpec size must be under {MOST_KIB} KiB")
        }
        _ => String::new(),
    };
    if !why.is_empty() {
        let spec = Value::from(option("gmsaCredentialSpec").unwrap_or_default());
        errors.invalid(at.child("gmsaCredentialSpec"), &spec, why);
    }
    if let Some(user) = option("runAsUserName") {
        validate_user_name(user, &at.child("runAsUserName"), errors);
    }
}

/// `user` or `DOMAIN\user`.
fn validate_user_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let mut refuse = |why: &str| errors.invalid(at, &Value::from(name), why);
    let parts = name.split('\\').count();
    if name.is_empty() {
        return refuse("runAsUserName cannot be an empty string");
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return refuse("runAsUserName cannot contain control characters");
    }
    if parts > 2 {
        return refuse("runAsUserName cannot contain more than one backslash");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if domain.is_some_and(|domain| domain.len() >= 256) {
        refuse("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_netbios_domain(domain) && !is_dns_domain(domain)) {
        refuse("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        refuse("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        refuse("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
        refuse("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        refuse("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

fn is_netbios_domain(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length) && !domain.starts_with('.') && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        bytes.len() <= 63
            && ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

/// The `hostProcess` of a security context, if it is set.
fn host_process(owner: &Value) -> Option<bool> {
    owner.at(&["securityContext", "windowsOptions", "hostProcess"])?.as_bool()
}

/// All containers are host processes or none is, and such a pod is on the host's network.
pub(crate) fn validate_host_process(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let pod = host_process(context.spec);
    let (mut all, mut processes) = (0, 0);
    visit_containers(context.spec, at, errors, &mut |container, at, errors| {
        let own = host_process(container);
        if let (Some(pod), Some(own)) = (pod, own.filter(|own| Some(*own) != pod)) {
            let (security_at, why) = (
                at.child("securityContext"),
                format!("pod hostProcess value must be identical if both are specified, was {pod}"),
            );
            let at = security_at.child("windowsOptions");
            errors.invalid(at.child("hostProcess"), &Value::from(own), why);
        }
        all += 1;
        processes += u32::from(own.or(pod) == Some(true));
    });
    if processes == 0 {
        return;
    }
    if processes != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, &Value::from(""), why);
    }
    if !context.is("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(at.child("hostNetwork"), &Value::from(false), why);
    }
}

/// The operating system, and fields that it does not support.
pub(crate) fn validate_os(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    match context.os() {
        None => {}
        Some("") => errors.required(at.child("os").child("name"), ""),
        Some("linux") => validate_linux(context.spec, at, errors),
        Some("windows") => validate_windows(context.spec, at, errors),
        Some(other) => errors.not_supported(at.child("os"), &Value::from(other), &["linux", "windows"]),
    }
}

fn validate_linux(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let check = |owner: &Value, at: &Field<'_>, errors: &mut ErrorList| {
        if owner.at(&["securityContext", "windowsOptions"]).is_some_and(|options| !options.is_null()) {
            let at = at.child("securityContext");
            errors.forbidden(at.child("windowsOptions"), "windows options cannot be set for a linux pod");
        }
    };
    check(spec, at, errors);
    visit_containers(spec, at, errors, &mut |container, at, errors| check(container, at, errors));
}

fn validate_windows(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const OF_POD: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const OF_CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    forbid_security(spec, &OF_POD, at, errors);
    for key in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
        let set = match key {
            "hostPID" | "hostIPC" => is(spec, key),
            _ => member(spec, key).is_some(),
        };
        if set {
            errors.forbidden(at.child(key), NOT_ON_WINDOWS);
        }
    }
    visit_containers(spec, at, errors, &mut |container, at, errors| {
        forbid_security(container, &OF_CONTAINER, at, errors);
    });
}

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

fn forbid_security(owner: &Value, keys: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    let Some(security) = member(owner, "securityContext") else { return };
    let at = at.child("securityContext");
    for key in keys {
        let empty = *key == "sysctls" && list(security, key).is_empty();
        if member(security, key).is_some() && !empty {
            errors.forbidden(at.child(key), NOT_ON_WINDOWS);
        }
    }
}
