//! Which kernel parameters pods may set: those that concern nobody else, and those that the node was told to allow. Pure.

use crate::pod::{HostNamespace, Pod};

/// What concerns only the pod itself.
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

/// Parameters that exist once per namespace of a kind; the last ones stand for all that begin like them.
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

/// What a parameter belongs to.
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

    /// Whether a pod has the node's.
    fn is_shared(self, pod: &Pod) -> bool {
        match self {
            Namespace::Ipc => pod.uses_host(HostNamespace::Ipc),
            Namespace::Net => pod.uses_host(HostNamespace::Network),
            Namespace::Uts => false,
            // No pod has one of its own (`config::check_pod`).
            Namespace::User => true,
        }
    }
}

/// What is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed(Vec<Pattern>);

/// One parameter, or all that begin with something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: String,
    is_prefix: bool,
    namespace: Namespace,
}

impl Allowed {
    /// What is safe, and what somebody allowed beyond it: `net.core.somaxconn`, `kernel.msg*`.
    pub(super) fn with<'a>(unsafe_ones: impl Iterator<Item = &'a str>) -> Result<Allowed, String> {
        SAFE.into_iter().chain(unsafe_ones).map(Pattern::read).collect::<Result<_, _>>().map(Allowed)
    }

    /// What a pod sets without being allowed to, in upstream's words.
    pub(super) fn check(&self, pod: &Pod) -> Result<(), String> {
        let asked = pod.tree().items_at(&["spec", "securityContext", "sysctls"]).iter();
        for name in asked.filter_map(|sysctl| sysctl.str_at(&["name"])) {
            let name = dotted(name);
            let exact = self.0.iter().find(|pattern| !pattern.is_prefix && pattern.text == name);
            let prefixed =
                || self.0.iter().find(|pattern| pattern.is_prefix && name.starts_with(&pattern.text));
            let pattern = exact.or_else(prefixed).ok_or_else(|| format!("{name:?} not allowlisted"))?;
            if pattern.namespace.is_shared(pod) {
                let namespace = pattern.namespace.name();
                return Err(format!("{name:?} not allowed with host {namespace} enabled"));
            }
        }
        Ok(())
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Pattern, String> {
        let name = dotted(text);
        let (text, is_prefix) = match name.split_once('*') {
            Some((prefix, _)) => (prefix.to_owned(), true),
            None => (name, false),
        };
        match Namespace::of(&text) {
            Some(namespace) => Ok(Pattern { text, is_prefix, namespace }),
            None => Err(format!("the sysctls {text:?} are not known to be namespaced")),
        }
    }
}

/// A parameter's name with dots, however it was written: with a slash first, slashes separate and dots are part of names.
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
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn what_pods_may_set() {
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
    fn what_is_not_a_pods_own_cannot_be_allowed() {
        let wrong = Allowed::with(["vm.swappiness"].into_iter());
        assert_eq!(wrong, Err("the sysctls \"vm.swappiness\" are not known to be namespaced".into()));
    }
}
