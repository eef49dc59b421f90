//! The sysctls that pods may set: namespaced ones that are safe, and those that the node's configuration allows.
//! Pure.

use crate::pod::{HostNamespace, Pod};

/// Sysctls that concern only the pod itself.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

/// Sysctls that are namespaced. The last ones are prefixes.
const IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];
const UTS: &str = "kernel.domainname";

/// The namespace of a sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
    Uts,
    User,
}

impl Namespace {
    fn of(name: &str) -> Option<Namespace> {
        match name {
            UTS => Some(Namespace::Uts),
            _ if IPC.contains(&name) || name.starts_with("fs.mqueue.") => Some(Namespace::Ipc),
            _ if name.starts_with("net.") => Some(Namespace::Net),
            _ if name.starts_with("user.") => Some(Namespace::User),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Namespace::Ipc => "IPC",
            Namespace::Net => "Net",
            Namespace::Uts => "UTS",
            Namespace::User => "User",
        }
    }

    /// Returns true if a pod shares the namespace with the node.
    fn is_shared(self, pod: &Pod) -> bool {
        match self {
            Namespace::Ipc => pod.uses_host(HostNamespace::Ipc),
            Namespace::Net => pod.uses_host(HostNamespace::Network),
            Namespace::Uts => false,
            // No pod has a user namespace of its own (`runtime_config::check_pod`).
            Namespace::User => true,
        }
    }
}

/// The allowed sysctls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed(Vec<Pattern>);

/// One sysctl, or all with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: String,
    is_prefix: bool,
    namespace: Namespace,
}

/// A sysctl that a pod may not set; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ForbiddenSysctl {
    #[error("{0:?} not allowlisted")]
    NotAllowed(String),
    #[error("{name:?} not allowed with host {namespace} enabled")]
    HostNamespace { name: String, namespace: &'static str },
}

/// A sysctl of `allowedUnsafeSysctls` that is not namespaced; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sysctls {0:?} are not known to be namespaced")]
pub(crate) struct UnknownSysctl(String);

impl Allowed {
    /// The safe sysctls and those of `allowedUnsafeSysctls`, such as `net.core.somaxconn` and `kernel.msg*`.
    pub(super) fn with<'a>(unsafe_ones: impl Iterator<Item = &'a str>) -> Result<Allowed, UnknownSysctl> {
        SAFE.into_iter().chain(unsafe_ones).map(Pattern::read).collect::<Result<_, _>>().map(Allowed)
    }

    /// Checks that a pod may set its sysctls.
    pub(super) fn check(&self, pod: &Pod) -> Result<(), ForbiddenSysctl> {
        let asked = pod.tree().items_at(&["spec", "securityContext", "sysctls"]).iter();
        for name in asked.filter_map(|sysctl| sysctl.str_at(&["name"])) {
            let name = dotted(name);
            let exact = self.0.iter().find(|pattern| !pattern.is_prefix && pattern.text == name);
            let prefixed =
                || self.0.iter().find(|pattern| pattern.is_prefix && name.starts_with(&pattern.text));
            let pattern = exact.or_else(prefixed).ok_or_else(|| ForbiddenSysctl::NotAllowed(name.clone()))?;
            if pattern.namespace.is_shared(pod) {
                let namespace = pattern.namespace.name();
                return Err(ForbiddenSysctl::HostNamespace { name, namespace });
            }
        }
        Ok(())
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Pattern, UnknownSysctl> {
        let name = dotted(text);
        let (text, is_prefix) = match name.split_once('*') {
            Some((prefix, _)) => (prefix.to_owned(), true),
            None => (name, false),
        };
        match Namespace::of(&text) {
            Some(namespace) => Ok(Pattern { text, is_prefix, namespace }),
            None => Err(UnknownSysctl(text)),
        }
    }
}

/// A sysctl's name with dots. A name whose first separator is a slash is separated by slashes, and its dots are part
/// of names.
pub(crate) fn dotted(name: &str) -> String {
    let swap = |c: char| match c {
        '/' => '.',
        '.' => '/',
        c => c,
    };
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => name.chars().map(swap).collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{Value, value};

    use super::*;
    use crate::pod::Source;

    #[track_caller]
    fn check(name: &str, more: &Value, expected: Result<(), &str>) {
        let mut tree = value!({"spec": {"securityContext": {"sysctls": [{"name": (name), "value": "1"}]}}});
        for (key, member) in more.as_object().into_iter().flat_map(corten_api::Map::iter) {
            tree.set(&["spec", key], member.clone());
        }
        let allowed =
            Allowed::with(["kernel.msg*", "net.core.somaxconn", "user.max_user_namespaces"].into_iter());
        let found = allowed.unwrap().check(&Pod::new(tree, Source::Api));
        assert_eq!(found.map_err(|err| err.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn allowed_sysctls_may_be_set() {
        let none = value!({});
        check("kernel.shm_rmid_forced", &none, Ok(()));
        check("kernel/shm_rmid_forced", &none, Ok(()));
        check("kernel.msgmax", &none, Ok(()));
        check("net.core.somaxconn", &none, Ok(()));
        check("kernel.sem", &none, Err("\"kernel.sem\" not allowlisted"));
        check("vm.swappiness", &none, Err("\"vm.swappiness\" not allowlisted"));
        let host = value!({"hostNetwork": true, "hostIPC": true});
        check(
            "net.ipv4.tcp_syncookies",
            &host,
            Err("\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"),
        );
        check("kernel.msgmax", &host, Err("\"kernel.msgmax\" not allowed with host IPC enabled"));
        let users = Err("\"user.max_user_namespaces\" not allowed with host User enabled");
        check("user.max_user_namespaces", &none, users);
        check("user.max_user_namespaces", &value!({"hostUsers": false}), users);
    }

    #[test]
    fn sysctls_without_a_namespace_cannot_be_allowed() {
        let wrong = Allowed::with(["vm.swappiness"].into_iter());
        assert_eq!(wrong, Err(UnknownSysctl("vm.swappiness".into())));
    }
}
