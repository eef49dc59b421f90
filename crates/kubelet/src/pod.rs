//! A pod as its source defines it: its tree, and the fields that are used often.
//!
//! The desired state; the actual state is `containers::observed`.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::Key;
use jiff::Timestamp;

/// A pod of this node. Cheap to clone.
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

/// The source of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The API server.
    Api,
    /// A manifest file.
    File,
    /// A manifest URL.
    Http,
}

impl Source {
    /// The value of the annotation `kubernetes.io/config.source`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Api => "api",
            Source::File => "file",
            Source::Http => "http",
        }
    }
}

/// The role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with restart policy `Always`: starts in its turn and runs for as long as the pod does.
    Sidecar,
    /// A main container.
    Main,
    /// Added to a running pod for debugging.
    Ephemeral,
}

/// The restart policy of a pod or container.
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

/// A container of a pod's spec.
#[derive(Debug, Clone)]
pub struct Container {
    /// The container's name.
    pub name: Str,
    /// The role of the container in its pod.
    pub role: Role,
    /// The container's own restart policy, if it has one. `Always` makes an init container a sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// The exit codes after which the container is restarted whatever its policy says.
    restart_codes: Vec<ExitCodes>,
    /// The container's spec.
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

    /// The container's image.
    pub fn image(&self) -> &str {
        self.tree.str_at(&["image"]).unwrap_or_default()
    }

    /// Returns true if the container is restarted after it exited with a code.
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
    /// A pod from its object and source.
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

    /// The same pod with another status.
    #[must_use]
    pub fn with_status(&self, status: Value) -> Pod {
        let mut tree = self.tree().clone();
        tree.set(&["status"], status);
        Pod::new(tree, self.source())
    }

    /// The pod's object.
    pub fn tree(&self) -> &Value {
        &self.0.tree
    }

    /// The namespace and name.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The uid.
    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.key.name
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.0.key.namespace
    }

    /// The source of the pod.
    pub fn source(&self) -> Source {
        self.0.source
    }

    /// Returns true if the pod's source is a file or URL, not the API server.
    pub fn is_static(&self) -> bool {
        self.0.source != Source::Api
    }

    /// The pod as upstream's messages name it: `name_namespace(uid)`.
    pub fn described(&self) -> String {
        format!("{}_{}({})", self.name(), self.namespace(), self.uid())
    }

    /// All containers: init containers and sidecars in their order, then the others.
    pub fn containers(&self) -> &[Container] {
        &self.0.containers
    }

    /// The containers with a role, in their order.
    pub fn with_role(&self, role: Role) -> impl DoubleEndedIterator<Item = &Container> {
        self.0.containers.iter().filter(move |c| c.role == role)
    }

    /// Init containers and sidecars, in the order they start.
    pub fn initial(&self) -> Vec<&Container> {
        self.0.containers.iter().filter(|c| matches!(c.role, Role::Init | Role::Sidecar)).collect()
    }

    /// The container of a name.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.0.containers.iter().find(|c| c.name == name)
    }

    /// The pod's restart policy.
    pub fn restart_policy(&self) -> RestartPolicy {
        RestartPolicy::read(self.0.tree.str_at(&["spec", "restartPolicy"])).unwrap_or(RestartPolicy::Always)
    }

    /// Returns true if the pod shares a namespace of the node.
    pub fn uses_host(&self, namespace: HostNamespace) -> bool {
        self.0.tree.bool_at(&["spec", namespace.field()]).unwrap_or(false)
    }

    /// Returns true if a node has started the pod, by its status.
    pub fn has_started(&self) -> bool {
        self.0.tree.at(&["status", "startTime"]).is_some_and(|at| !at.is_null())
    }

    /// The deletion timestamp.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        self.0.tree.str_at(&["metadata", "deletionTimestamp"])?.parse().ok()
    }

    /// The grace period: that of the deletion, or else the pod's own.
    pub fn grace(&self) -> Duration {
        let asked = self.0.tree.int_at(&["metadata", "deletionGracePeriodSeconds"]);
        let own = || self.0.tree.int_at(&["spec", "terminationGracePeriodSeconds"]);
        let seconds = asked.or_else(own).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

/// A namespace of the node that a pod may share.
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
