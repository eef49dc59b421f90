//! The `volumesAttached` of a node.

use corten_api::{Str, Value, meta, value};
use corten_client::{Caches, Key, Patch, kinds};
use corten_reconcile::{Action, Event, Plan, Report};

use super::{ATTACHMENTS_BY_NODE, COMPONENT, MANAGED, unique_name, users};
use crate::conditions;
use crate::storage::{VolumeView, annotation};

const CSI: &str = "kubernetes.io/csi/";

/// The fields of a node that matter to its volumes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeVolumes {
    pub(super) managed: bool,
    pub(super) ready: bool,
    pub(super) out_of_service: bool,
    /// The volumes that it has mounted, or is about to mount.
    pub(super) in_use: Vec<Str>,
    /// The volumes in `volumesAttached`.
    pub(super) attached: Vec<Str>,
}

pub(super) fn node_volumes(node: &Value) -> NodeVolumes {
    let taints = node.items_at(&["spec", "taints"]);
    NodeVolumes {
        managed: annotation(node, MANAGED).is_some(),
        ready: conditions::is_true(node, "Ready"),
        out_of_service: taints
            .iter()
            .any(|t| t.str_at(&["key"]) == Some("node.kubernetes.io/out-of-service")),
        in_use: node
            .items_at(&["status", "volumesInUse"])
            .iter()
            .filter_map(Value::as_str)
            .map(Str::new)
            .collect(),
        attached: listed(node).iter().filter_map(|v| v.str_at(&["name"])).map(Str::new).collect(),
    }
}

fn listed(node: &Value) -> &[Value] {
    node.items_at(&["status", "volumesAttached"])
}

/// A volume that is attached to a node.
#[derive(Debug)]
pub(super) struct Attached {
    /// Its unique name in node statuses.
    pub(super) name: String,
    pub(super) volume: Str,
    /// The node's pods that need it.
    pub(super) pods: Vec<Value>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeWorld {
    pub(super) node: Value,
    pub(super) attached: Vec<Attached>,
}

pub(super) fn observe(caches: &Caches, name: &Str) -> Option<NodeWorld> {
    let key = Key::new("", name.clone());
    let node = caches.of(&kinds::NODES).get(&key)?.tree();
    let volumes = caches.of(&kinds::PERSISTENT_VOLUMES);
    let mut attached = Vec::new();
    for attachment in caches.by(&ATTACHMENTS_BY_NODE, &key).iter().filter(|attachment| !attachment.deleting) {
        let attachment = attachment.tree();
        let volume = attachment.str_at(&["spec", "source", "persistentVolumeName"]).unwrap_or_default();
        let Some(object) = volumes.get(&Key::new("", volume)) else { continue };
        let view = object.view::<VolumeView>();
        let Some(csi) =
            view.csi.as_ref().filter(|_| attachment.bool_at(&["status", "attached"]) == Some(true))
        else {
            continue;
        };
        let mut pods = users(caches, &view, volume);
        pods.retain(|pod| super::volume::node_of(pod) == name);
        attached.push(Attached { name: unique_name(csi), volume: volume.into(), pods });
    }
    Some(NodeWorld { node, attached })
}

impl NodeWorld {
    fn is_listed(&self, name: &str) -> bool {
        listed(&self.node).iter().any(|volume| volume.str_at(&["name"]) == Some(name))
    }

    /// Volumes that are newly attached and needed. Volumes that no pod needs are about to be detached and are not added
    /// again.
    fn unreported(&self) -> impl Iterator<Item = &Attached> {
        self.attached.iter().filter(|volume| !volume.pods.is_empty() && !self.is_listed(&volume.name))
    }

    pub(super) fn plan(&self) -> Plan {
        let is_attached = |volume: &&Value| {
            let name = volume.str_at(&["name"]).unwrap_or_default();
            !name.starts_with(CSI) || self.attached.iter().any(|attached| attached.name == name)
        };
        let before = listed(&self.node);
        let mut now: Vec<Value> = before.iter().filter(is_attached).cloned().collect();
        now.extend(
            self.unreported().map(|attached| value!({"name": (attached.name.clone()), "devicePath": ""})),
        );
        if now.len() == before.len() && self.unreported().next().is_none() {
            return Plan::done();
        }
        Plan::done().then(write_attached(&self.node, now))
    }

    pub(super) fn conclude(&self, report: &Report) -> Plan {
        let mut plan = Plan::done();
        if report.is_success() {
            for attached in self.unreported() {
                // Upstream's message has the trailing space, too.
                let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", attached.volume);
                let event = |pod| Event::normal(COMPONENT, pod, "SuccessfulAttachVolume", message.clone());
                plan.events.extend(attached.pods.iter().map(event));
            }
        }
        plan
    }
}

/// Removes a volume from `volumesAttached`; `None` if it is not in it.
pub(super) fn without(node: &Value, name: &str) -> Option<Action> {
    let rest: Vec<Value> =
        listed(node).iter().filter(|volume| volume.str_at(&["name"]) != Some(name)).cloned().collect();
    (rest.len() < listed(node).len()).then(|| write_attached(node, rest))
}

/// Writes the whole list, provided the node still has the version it was read in.
fn write_attached(node: &Value, volumes: Vec<Value>) -> Action {
    let patch = value!({
        "metadata": {"resourceVersion": (meta::resource_version(node))},
        "status": {"volumesAttached": volumes},
    });
    Action::Patch {
        kind: &kinds::NODES,
        key: Key::of(node),
        patch: Patch::Strategic(patch),
        subresource: "status",
    }
}
