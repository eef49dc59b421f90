//! The nodes to attach a volume to, and those to detach it from.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, DeleteOptions, Key, kinds};
use corten_reconcile::{Action, Event, Plan};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::node::{self, NodeVolumes};
use super::{ATTACHMENTS_BY_VOLUME, AttachOptions, COMPONENT, Memory, unique_name, users};
use crate::storage::{Asked, VolumeView};

/// The state of one volume.
#[derive(Debug, Default)]
pub(crate) struct VolumeWorld {
    pub(super) name: Str,
    /// The driver and the volume handle.
    pub(super) csi: (Str, Str),
    /// True if it can be attached to several nodes.
    pub(super) shared: bool,
    /// True if its driver requires attaching.
    pub(super) attachable: bool,
    /// The bound pods that need it.
    pub(super) pods: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    /// The existing nodes it is attached to, by name.
    pub(super) nodes: HashMap<Str, Value>,
    pub(super) memory: Memory,
    pub(super) asked: Asked,
}

pub(super) fn observe(caches: &Caches, name: &Str) -> Option<VolumeWorld> {
    let key = Key::new("", name.clone());
    let volume = caches.of(&kinds::PERSISTENT_VOLUMES).get(&key)?;
    let view = volume.view::<VolumeView>();
    let csi = view.csi.clone()?;
    let driver = caches.of(&kinds::CSI_DRIVERS).get(&Key::new("", csi.0.clone()));
    let attachments: Vec<Value> =
        caches.by(&ATTACHMENTS_BY_VOLUME, &key).iter().map(|attachment| attachment.tree()).collect();
    let nodes = caches.of(&kinds::NODES);
    let found = attachments.iter().filter_map(|attachment| {
        let name = node_of(attachment);
        nodes.get(&Key::new("", name)).map(|node| (Str::new(name), node.tree()))
    });
    Some(VolumeWorld {
        name: name.clone(),
        csi,
        shared: can_be_shared(&view),
        attachable: driver.is_none_or(|d| d.tree().bool_at(&["spec", "attachRequired"]) != Some(false)),
        pods: users(caches, &view, name),
        nodes: found.collect(),
        attachments,
        memory: Memory::default(),
        asked: Asked::NotYet,
    })
}

fn can_be_shared(volume: &VolumeView) -> bool {
    let modes = &volume.access_modes;
    modes.is_empty() || modes.contains("ReadWriteMany") || modes.contains("ReadOnlyMany")
}

pub(super) fn node_of(object: &Value) -> &str {
    object.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

/// The decision about a volume that a node no longer needs.
#[derive(Debug, PartialEq)]
enum Verdict {
    Detach,
    /// The node has it mounted; the remaining wait.
    Wait(Duration),
}

impl VolumeWorld {
    /// The nodes that need it, with their pods.
    fn needed(&self) -> BTreeMap<&str, Vec<&Value>> {
        let mut needed: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in &self.pods {
            needed.entry(node_of(pod)).or_default().push(pod);
        }
        needed
    }

    /// The attachments that no pod needs.
    fn unneeded(&self) -> impl Iterator<Item = &Value> {
        let needed = self.needed();
        self.attachments.iter().filter(move |a| !meta::is_deleting(a) && !needed.contains_key(node_of(a)))
    }

    fn node_volumes(&self, node: &str) -> Option<NodeVolumes> {
        self.nodes.get(node).map(node::node_volumes)
    }

    fn is_mounted(&self, node: &str) -> bool {
        let name = unique_name(&self.csi);
        // A deleted node may have had it mounted.
        self.node_volumes(node)
            .is_none_or(|node_volumes| node_volumes.in_use.iter().any(|used| *used == name))
    }

    pub(super) fn questions(&self) -> Vec<String> {
        if self.asked != Asked::NotYet {
            return Vec::new();
        }
        let detached = self.unneeded().map(node_of).filter(|node| !self.is_mounted(node));
        detached.map(|node| kinds::NODES.path("", node, "")).collect()
    }

    /// The plan, and the state to remember until the next reconcile.
    pub(super) fn decide(&self, options: &AttachOptions, now: Timestamp) -> (Plan, Memory) {
        let (mut plan, mut memory) = (Plan::done(), Memory::default());
        if self.asked == Asked::Failed {
            return (plan.retry(), self.memory.clone());
        }
        if !self.attachable {
            return (plan, memory);
        }
        for attachment in self.unneeded() {
            let node = node_of(attachment);
            let since = self.memory.waits.get(node).copied().unwrap_or(now);
            match self.verdict(node, since, options, now) {
                Verdict::Detach => plan = self.detach(attachment, node, plan),
                Verdict::Wait(left) => {
                    memory.waits.insert(node.into(), since);
                    if !left.is_zero() {
                        plan = plan.requeue_after(left);
                    }
                }
            }
        }
        for (node, pods) in self.needed() {
            let found = self.attachments.iter().find(|attachment| node_of(attachment) == node);
            match found {
                Some(attachment) => plan.events.extend(self.attach_error(attachment, &pods)),
                None if self.shared || self.attachments.is_empty() => plan = plan.then(self.attach(node)),
                None => {
                    memory.reported.insert(node.into());
                    if !self.memory.reported.contains(node) {
                        plan.events.extend(pods.iter().map(|pod| self.elsewhere(pod)));
                    }
                }
            }
        }
        (plan, memory)
    }

    fn verdict(&self, node: &str, since: Timestamp, options: &AttachOptions, now: Timestamp) -> Verdict {
        let node_volumes = self.node_volumes(node).unwrap_or_default();
        let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let left = options.max_wait_for_unmount.saturating_sub(waited);
        let gives_up = !node_volumes.ready && left.is_zero() && !options.disable_force_detach_on_timeout;
        if !self.is_mounted(node) || node_volumes.out_of_service || gives_up {
            Verdict::Detach
        } else {
            Verdict::Wait(left)
        }
    }

    /// The node's status is updated first, so that the kubelet no longer uses it.
    fn detach(&self, attachment: &Value, node: &str, plan: Plan) -> Plan {
        let name = unique_name(&self.csi);
        let withdrawn = self.nodes.get(node).and_then(|node| node::without(node, &name));
        let options = DeleteOptions { uid: Some(meta::uid(attachment).into()), ..DeleteOptions::default() };
        let delete = Action::Delete { kind: &kinds::VOLUME_ATTACHMENTS, key: Key::of(attachment), options };
        withdrawn.into_iter().fold(plan, Plan::then).then(delete)
    }

    fn attach(&self, node: &str) -> Action {
        let (driver, handle) = &self.csi;
        let digest = Sha256::digest(format!("{handle}{driver}{node}"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut object = kinds::VOLUME_ATTACHMENTS.new_object("", &format!("csi-{digest}"));
        object.set(&["spec", "attacher"], driver.clone());
        object.set(&["spec", "nodeName"], node);
        object.set(&["spec", "source", "persistentVolumeName"], self.name.clone());
        Action::Create { kind: &kinds::VOLUME_ATTACHMENTS, object }
    }

    /// The events about a driver's attach error.
    fn attach_error(&self, attachment: &Value, pods: &[&Value]) -> Vec<Event> {
        let attached = attachment.bool_at(&["status", "attached"]) == Some(true);
        let error = attachment.str_at(&["status", "attachError", "message"]).filter(|_| !attached);
        let Some(error) = error else { return Vec::new() };
        let message = format!("AttachVolume.Attach failed for volume \"{}\" : {error}", self.name);
        let event = |pod: &&Value| Event::warning(COMPONENT, pod, "FailedAttachVolume", message.clone());
        pods.iter().map(event).collect()
    }

    /// The event about a volume that is exclusively attached elsewhere. It names no objects of other namespaces.
    fn elsewhere(&self, pod: &Value) -> Event {
        let others = || self.pods.iter().filter(|other| node_of(other) != node_of(pod));
        let is_near = |other: &&Value| meta::namespace(other) == meta::namespace(pod);
        let near: Vec<&str> = others().filter(is_near).map(meta::name).collect();
        let far = others().count() - near.len();
        let why = match (near.len(), far) {
            (0, 0) => {
                "Volume is already exclusively attached to one node, waiting on detach before it can be \
                       attached to another node"
                    .to_owned()
            }
            (0, far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
            (_, 0) => format!("Volume is already used by pod(s) {}", near.join(", ")),
            (_, far) => format!(
                "Volume is already used by pod(s) {} and {far} pod(s) in different namespaces",
                near.join(", ")
            ),
        };
        let message = format!("Waiting for detach for volume \"{}\" {why}", self.name);
        Event::warning(COMPONENT, pod, "FailedAttachVolume", message)
    }
}
