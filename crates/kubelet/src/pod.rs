//! A pod as the node is asked to run it: its tree, and what is read off it again and again.
//!
//! Nothing here knows what runs; see `observed` for that.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::Key;
use jiff::Timestamp;

/// A pod that is to run here. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pod(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tree: Value,
    key: Key,
    uid: Str,
    source: Source,
    containers: Vec<Container>,
}

/// Who asks for a pod to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Api,
    File,
    Http,
}

impl Source {
    /// As the annotation that says it spells it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Api => "api",
            Source::File => "file",
            Source::Http => "http",
        }
    }
}

/// What part a container plays in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs to its end before the next begins.
    Init,
    /// Begins in its turn among the init containers and runs for as long as the pod does.
    Sidecar,
    Main,
    /// Added to a running pod to look into it.
    Ephemeral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn read(text: Option<&str>) -> Option<RestartPolicy> {
        match text? {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            _ => None,
        }
    }
}

/// A container as its pod asks for it. Its pod holds its tree.
#[derive(Debug, Clone)]
pub struct Container {
    pub name: Str,
    pub role: Role,
    /// Its own, if it has one; sidecars' is what makes them sidecars.
    pub restart_policy: Option<RestartPolicy>,
    /// Exit codes for which it is restarted whatever its policy says.
    restart_codes: Vec<ExitCodes>,
    pub tree: Value,
}

#[derive(Debug, Clone)]
struct ExitCodes {
    among: bool,
    codes: Vec<i64>,
}

impl Container {
    fn read(tree: &Value, list: Role) -> Container {
        let own = tree.str_at(&["restartPolicy"]);
        let restart_policy = RestartPolicy::read(own);
        let sidecar = list == Role::Init && restart_policy == Some(RestartPolicy::Always);
        let rules = tree.items_at(&["restartPolicyRules"]).iter();
        let restarting = rules.filter(|rule| rule.str_at(&["action"]) == Some("Restart"));
        Container {
            name: tree.str_at(&["name"]).unwrap_or_default().into(),
            role: if sidecar { Role::Sidecar } else { list },
            restart_policy,
            restart_codes: restarting.filter_map(|rule| ExitCodes::read(rule.get("exitCodes")?)).collect(),
            tree: tree.clone(),
        }
    }

    pub fn image(&self) -> &str {
        self.tree.str_at(&["image"]).unwrap_or_default()
    }

    /// Whether one that ended like this is to be started again.
    pub fn restarts_after(&self, exit_code: i32, of_pod: RestartPolicy) -> bool {
        if self.restart_codes.iter().any(|rule| rule.includes(exit_code.into())) {
            return true;
        }
        match self.restart_policy.unwrap_or(of_pod) {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        }
    }
}

impl ExitCodes {
    fn read(tree: &Value) -> Option<ExitCodes> {
        let among = match tree.str_at(&["operator"])? {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        let codes = tree.items_at(&["values"]).iter().filter_map(Value::as_int).collect();
        Some(ExitCodes { among, codes })
    }

    fn includes(&self, code: i64) -> bool {
        self.codes.contains(&code) == self.among
    }
}

impl Pod {
    pub fn new(tree: Value, source: Source) -> Pod {
        let of = |list: &str, role: Role| {
            let items = tree.items_at(&["spec", list]).iter();
            items.map(|item| Container::read(item, role)).collect::<Vec<_>>()
        };
        let mut containers = of("initContainers", Role::Init);
        containers.extend(of("containers", Role::Main));
        containers.extend(of("ephemeralContainers", Role::Ephemeral));
        Pod(Arc::new(Inner { key: Key::of(&tree), uid: meta::uid(&tree).into(), source, containers, tree }))
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(&self, status: Value) -> Pod {
        let mut tree = self.tree().clone();
        tree.set(&["status"], status);
        Pod::new(tree, self.source())
    }

    pub fn tree(&self) -> &Value {
        &self.0.tree
    }

    pub fn key(&self) -> &Key {
        &self.0.key
    }

    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    pub fn name(&self) -> &str {
        &self.0.key.name
    }

    pub fn namespace(&self) -> &str {
        &self.0.key.namespace
    }

    pub fn source(&self) -> Source {
        self.0.source
    }

    /// Whether it is the node's own, not the API server's.
    pub fn is_static(&self) -> bool {
        self.0.source != Source::Api
    }

    /// As messages name it: `name_namespace(uid)`.
    pub fn described(&self) -> String {
        format!("{}_{}({})", self.name(), self.namespace(), self.uid())
    }

    /// All of them: init containers and sidecars in their order, then the others.
    pub fn containers(&self) -> &[Container] {
        &self.0.containers
    }

    pub fn with_role(&self, role: Role) -> impl DoubleEndedIterator<Item = &Container> {
        self.0.containers.iter().filter(move |c| c.role == role)
    }

    /// Init containers and sidecars, in the order they begin.
    pub fn initial(&self) -> Vec<&Container> {
        self.0.containers.iter().filter(|c| matches!(c.role, Role::Init | Role::Sidecar)).collect()
    }

    pub fn container(&self, name: &str) -> Option<&Container> {
        self.0.containers.iter().find(|c| c.name == name)
    }

    pub fn restart_policy(&self) -> RestartPolicy {
        RestartPolicy::read(self.0.tree.str_at(&["spec", "restartPolicy"])).unwrap_or(RestartPolicy::Always)
    }

    pub fn uses_host(&self, namespace: HostNamespace) -> bool {
        self.0.tree.bool_at(&["spec", namespace.field()]).unwrap_or(false)
    }

    /// Whether a node has taken it on, as far as its status tells.
    pub fn has_begun(&self) -> bool {
        self.0.tree.at(&["status", "startTime"]).is_some_and(|at| !at.is_null())
    }

    /// Since when it is being deleted.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        self.0.tree.str_at(&["metadata", "deletionTimestamp"])?.parse().ok()
    }

    /// How long its containers may take to end; what its deletion says comes before what it says itself.
    pub fn grace(&self) -> Duration {
        let asked = self.0.tree.int_at(&["metadata", "deletionGracePeriodSeconds"]);
        let own = || self.0.tree.int_at(&["spec", "terminationGracePeriodSeconds"]);
        let seconds = asked.or_else(own).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

/// What of the node a pod may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostNamespace {
    Network,
    Pid,
    Ipc,
}

impl HostNamespace {
    fn field(self) -> &'static str {
        match self {
            HostNamespace::Network => "hostNetwork",
            HostNamespace::Pid => "hostPID",
            HostNamespace::Ipc => "hostIPC",
        }
    }
}
