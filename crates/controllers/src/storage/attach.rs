//! Attach/detach controller: attaches CSI volumes to the nodes whose pods need them, and detaches them when no pod does
//! and the node has unmounted them.
//!
//! Owns VolumeAttachments, which drivers act on, and `volumesAttached` of nodes, which kubelets wait for. Watches pods,
//! claims, volumes, attachments, drivers and nodes. A key of the namespace `volumes` is a volume, one of `nodes` a
//! node. A volume that a node still has mounted is detached only if the node is out of service, or has not been ready
//! for the force-detach timeout, whose start is remembered only in this process. Never attaches to nodes that attach by
//! themselves, nor volumes that need no attaching.

mod node;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Change, Error, Index, Key, Object, kinds};
use corten_reconcile::{Controller, Manager, Plan, Report, Watch};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::usage::{is_terminated, refers_to};
use super::{ClaimView, PODS_BY_CLAIM, VolumeView, annotation, claims_of_pod};
use crate::nodes;
use crate::pods::PodView;
use node::NodeWorld;
use volume::VolumeWorld;

/// The component of its events, as upstream's.
const COMPONENT: &str = "attachdetach-controller";
/// The annotation of nodes whose volumes this controller attaches.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// The wait for a node that is not ready to unmount, before a forced detach.
    pub max_wait_for_unmount: Duration,
    /// True to wait for ever instead.
    pub disable_force_detach_on_timeout: bool,
}

impl Default for AttachOptions {
    fn default() -> AttachOptions {
        AttachOptions {
            max_wait_for_unmount: Duration::from_secs(360),
            disable_force_detach_on_timeout: false,
        }
    }
}

pub(crate) struct Attacher {
    options: AttachOptions,
    /// By volume.
    memory: Mutex<HashMap<Str, Memory>>,
}

/// The state of a volume between two reconciles.
#[derive(Debug, Clone, Default, PartialEq)]
struct Memory {
    /// The nodes whose unmount is awaited, and since when.
    waits: HashMap<Str, Timestamp>,
    /// The nodes with pods that have an event about a volume that is attached elsewhere.
    reported: HashSet<Str>,
}

impl Attacher {
    pub(crate) fn new(manager: &Manager, options: AttachOptions) -> Attacher {
        for index in [&ATTACHMENTS_BY_NODE, &ATTACHMENTS_BY_VOLUME, &nodes::PODS, &PODS_BY_CLAIM] {
            manager.caches().index(index);
        }
        Attacher { options, memory: Mutex::default() }
    }
}

static ATTACHMENTS_BY_VOLUME: Index = Index {
    kind: &kinds::VOLUME_ATTACHMENTS,
    name: "attachments-by-volume",
    names: |attachment| named(attachment, &["spec", "source", "persistentVolumeName"]),
};

static ATTACHMENTS_BY_NODE: Index = Index {
    kind: &kinds::VOLUME_ATTACHMENTS,
    name: "attachments-by-node",
    names: |attachment| named(attachment, &["spec", "nodeName"]),
};

fn named(object: &Object, path: &[&str]) -> Vec<Key> {
    object.tree().str_at(path).map(|name| Key::new("", name)).into_iter().collect()
}

fn volume_key(name: impl Into<Str>) -> Key {
    Key::new("volumes", name)
}

fn node_key(name: impl Into<Str>) -> Key {
    Key::new("nodes", name)
}

pub(crate) enum World {
    Nothing,
    Volume(Box<VolumeWorld>),
    Node(Box<NodeWorld>),
}

impl Controller for Attacher {
    type World = World;

    fn name(&self) -> &'static str {
        "persistentvolume-attach-detach-controller"
    }

    fn account(&self) -> &'static str {
        "attachdetach-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PODS, keys: pod_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUMES, keys: volume_changed },
            Watch { kind: &kinds::VOLUME_ATTACHMENTS, keys: attachment_changed },
            Watch { kind: &kinds::CSI_DRIVERS, keys: driver_changed },
            Watch { kind: &kinds::NODES, keys: node_changed },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        if key.namespace == "nodes" {
            let world = node::observe(caches, &key.name);
            return world.map_or(World::Nothing, |world| World::Node(Box::new(world)));
        }
        let Some(mut world) = volume::observe(caches, &key.name) else { return World::Nothing };
        world.memory = self.memory.lock().get(&key.name).cloned().unwrap_or_default();
        World::Volume(Box::new(world))
    }

    /// A node may have begun to mount a volume that it does not use by the cache.
    fn ask(&self, world: &World) -> Vec<String> {
        match world {
            World::Volume(world) => world.questions(),
            _ => Vec::new(),
        }
    }

    fn learn(&self, world: &mut World, _: &str, answer: Result<Value, Error>) {
        if let World::Volume(world) = world
            && let Some(node) = world.asked.answer(answer).filter(|node| !node.is_null())
        {
            world.nodes.insert(meta::name(&node).into(), node);
        }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        match world {
            World::Nothing => Plan::done(),
            World::Volume(world) => world.decide(&self.options, now).0,
            World::Node(world) => world.plan(),
        }
    }

    fn conclude(&self, key: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        match world {
            World::Nothing => {
                if *key == volume_key(key.name.clone()) {
                    self.memory.lock().remove(&key.name);
                }
                Plan::done()
            }
            World::Volume(world) => {
                let (_, memory) = world.decide(&self.options, now);
                let mut known = self.memory.lock();
                if memory == Memory::default() {
                    known.remove(&key.name);
                } else {
                    known.insert(key.name.clone(), memory);
                }
                Plan::done()
            }
            World::Node(world) => world.conclude(report),
        }
    }
}

/// The bound pods that need a volume, through its claim.
fn users(caches: &Caches, volume: &VolumeView, name: &str) -> Vec<Value> {
    let Some((key, uid)) = &volume.claim else { return Vec::new() };
    let claim = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(key).map(|claim| claim.tree());
    let is_bound = |claim: &Value| {
        meta::uid(claim) == uid
            && claim.str_at(&["status", "phase"]) == Some("Bound")
            && claim.str_at(&["spec", "volumeName"]) == Some(name)
    };
    let Some(claim) = claim.filter(is_bound) else { return Vec::new() };
    let nodes = caches.of(&kinds::NODES);
    let is_managed = |node: &str| {
        nodes.get(&Key::new("", node)).is_some_and(|node| annotation(&node.tree(), MANAGED).is_some())
    };
    let pods = caches.by(&PODS_BY_CLAIM, key).into_iter().map(|pod| pod.tree());
    pods.filter(|pod| !is_terminated(pod) && refers_to(pod, &claim))
        .filter(|pod| pod.str_at(&["spec", "nodeName"]).is_some_and(is_managed))
        .collect()
}

/// The unique name of a volume in node statuses.
fn unique_name((driver, handle): &(Str, Str)) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// A pod concerns its volumes and its node when it is added or deleted, is bound, or finishes.
fn pod_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.states().all(|pod| pod.view::<PodView>().claims.is_empty()) {
        return;
    }
    let placement = |pod: &Arc<Object>| (pod.view::<PodView>().node.clone(), is_terminated(&pod.tree()));
    if change.old.as_ref().map(placement) == change.new.as_ref().map(placement) {
        return;
    }
    keys.extend(keys_of_pod(caches, change.object()));
}

fn keys_of_pod(caches: &Caches, pod: &Object) -> Vec<Key> {
    let node = pod.view::<PodView>().node.clone();
    if node.is_empty() {
        return Vec::new();
    }
    let claims = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS);
    let volumes = claims_of_pod(pod).filter_map(|claim| claims.get(&claim));
    let mut keys: Vec<Key> =
        volumes.map(|claim| volume_key(claim.view::<ClaimView>().volume.clone())).collect();
    keys.retain(|key| !key.name.is_empty());
    keys.push(node_key(node));
    keys
}

fn claim_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let volume = change.object().view::<ClaimView>().volume.clone();
    if !volume.is_empty() {
        keys.push(volume_key(volume));
    }
}

fn volume_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.object().view::<VolumeView>().csi.is_some() {
        keys.push(volume_key(change.object().key.name.clone()));
    }
}

fn attachment_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let attachment = change.object().tree();
    let text = |path: &[&str]| attachment.str_at(path).map(Str::new);
    keys.extend(text(&["spec", "source", "persistentVolumeName"]).map(volume_key));
    keys.extend(text(&["spec", "nodeName"]).map(node_key));
}

/// Any change of a driver concerns all its volumes; drivers hardly ever change.
fn driver_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let driver = &change.object().key.name;
    for volume in caches.of(&kinds::PERSISTENT_VOLUMES).list("") {
        if volume.view::<VolumeView>().csi.as_ref().is_some_and(|(served_by, _)| served_by == driver) {
            keys.push(volume_key(volume.key.name.clone()));
        }
    }
}

/// A node concerns the volumes attached to it, and those of its pods when it becomes managed.
fn node_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let states = [change.old.as_ref(), change.new.as_ref()]
        .map(|node| node.map(|node| node::node_volumes(&node.tree())));
    if states[0] == states[1] {
        return;
    }
    let key = &change.object().key;
    keys.push(node_key(key.name.clone()));
    for attachment in caches.by(&ATTACHMENTS_BY_NODE, key) {
        let volume = attachment.tree();
        keys.extend(volume.str_at(&["spec", "source", "persistentVolumeName"]).map(volume_key));
    }
    let managed = states.map(|node_volumes| node_volumes.is_some_and(|node_volumes| node_volumes.managed));
    if managed[0] != managed[1] {
        for pod in caches.by(&nodes::PODS, key) {
            keys.extend(keys_of_pod(caches, &pod));
        }
    }
}
