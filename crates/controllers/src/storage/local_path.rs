//! Local path provisioner: a claim of its class gets a directory on the node of its pod.
//!
//! Owns the volumes it creates. Watches claims and volumes, as any external provisioner does: a claim is its own when
//! the binder has annotated it, a volume when it is released and to be deleted. Never touches a disk: the kubelet
//! creates the directory when the volume is first mounted. A kubelet with data to remove holds the volume by its own
//! finalizer from then on; the volume is deleted here without waiting for it.

use corten_api::{Str, Value, meta, value};
use corten_client::{Caches, Change, DeleteOptions, Key, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Watch};
use jiff::Timestamp;

use super::{
    BETA_STORAGE_PROVISIONER, ClaimView, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER, VolumeView,
    access_modes, annotation, class_of_claim, is_block, update, waits_for_consumer,
};

/// The name of the provisioner in classes, claims and volumes.
pub const PROVISIONER: &str = "corten.dev/local-path";
const HOSTNAME: &str = "kubernetes.io/hostname";

#[derive(Debug, Clone)]
pub struct LocalPathOptions {
    /// The directory of the volumes on every node.
    pub directory: String,
}

pub(crate) struct LocalPath {
    pub(crate) options: LocalPathOptions,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    claim: Option<Value>,
    /// The claim's class.
    class: Option<Value>,
    /// The host name label of the node that was selected for the claim's pod; `None` if it does not exist.
    hostname: Option<Str>,
    /// The claim's volume, or the reconciled volume.
    volume: Option<Value>,
}

impl Controller for LocalPath {
    type World = World;

    fn name(&self) -> &'static str {
        "local-path-provisioner-controller"
    }

    /// A provisioner needs a part of the binder's permissions.
    fn account(&self) -> &'static str {
        "persistent-volume-binder"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUMES, keys: volume_changed },
            Watch::lookup(&kinds::STORAGE_CLASSES),
            Watch::lookup(&kinds::NODES),
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let volume = |name: &str| {
            caches.of(&kinds::PERSISTENT_VOLUMES).get(&Key::new("", name)).map(|volume| volume.tree())
        };
        if key.namespace.is_empty() {
            return World { volume: volume(&key.name), ..World::default() };
        }
        let claim = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(key).filter(|claim| !claim.deleting);
        let Some(claim) = claim.map(|claim| claim.tree()) else { return World::default() };
        let class = class_of_claim(&claim).unwrap_or_default();
        let class = caches.of(&kinds::STORAGE_CLASSES).get(&Key::new("", class)).map(|class| class.tree());
        let node = annotation(&claim, SELECTED_NODE).unwrap_or_default();
        let hostname = caches.of(&kinds::NODES).get(&Key::new("", node)).map(|node| {
            let label = node.labels.get(HOSTNAME).and_then(Value::as_str);
            label.map_or_else(|| node.key.name.clone(), Str::new)
        });
        World { volume: volume(&volume_name(&claim)), claim: Some(claim), class, hostname }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        match (&world.claim, &world.class, &world.volume) {
            (None, _, Some(volume)) => reclaim(volume),
            (Some(claim), Some(class), None) => self.provision(world, claim, class),
            _ => Plan::done(),
        }
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, _: Timestamp) -> Plan {
        let mut plan = Plan::done();
        for outcome in &report.outcomes {
            let event = match (&outcome.action, &outcome.result, &world.claim, &world.volume) {
                (Action::Create { object, .. }, Ok(_), Some(claim), _) => {
                    let message = format!("Successfully provisioned volume {}", meta::name(object));
                    Event::normal(PROVISIONER, claim, "ProvisioningSucceeded", message)
                }
                (Action::Create { .. }, Err(error), Some(claim), _) => {
                    failed(claim, &format!("failed to save volume: {error}"))
                }
                (Action::Delete { .. }, Err(error), _, Some(volume)) => {
                    Event::warning(PROVISIONER, volume, "VolumeFailedDelete", error.to_string())
                }
                _ => continue,
            };
            plan = plan.event(event);
        }
        plan
    }
}

impl LocalPath {
    fn provision(&self, world: &World, claim: &Value, class: &Value) -> Plan {
        let is_ours = class.str_at(&["provisioner"]) == Some(PROVISIONER) && is_requested(claim);
        let node = annotation(claim, SELECTED_NODE).filter(|node| !node.is_empty());
        if !is_ours || (node.is_none() && waits_for_consumer(class)) {
            return Plan::done();
        }
        if let Some(objection) = objection(claim, node) {
            return Plan::done().event(failed(claim, objection));
        }
        let (Some(node), Some(hostname)) = (node, &world.hostname) else {
            // The selected node was deleted: the scheduler selects another.
            let mut claim = claim.clone();
            let message =
                format!("failed to get target node: node \"{}\" not found", node.unwrap_or_default());
            let event = failed(&claim, &message);
            claim.remove(&["metadata", "annotations", SELECTED_NODE]);
            return Plan::done().event(event).then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, claim, ""));
        };
        let message = format!("External provisioner is provisioning volume for claim \"{}\"", Key::of(claim));
        let object = self.volume(claim, class, node, hostname);
        Plan::done()
            .event(Event::normal(PROVISIONER, claim, "Provisioning", message))
            .then(Action::Create { kind: &kinds::PERSISTENT_VOLUMES, object })
    }

    /// The volume of a claim, with affinity to one node.
    fn volume(&self, claim: &Value, class: &Value, node: &str, hostname: &str) -> Value {
        let name = volume_name(claim);
        let directory = self.options.directory.trim_end_matches('/');
        let path = format!("{directory}/{name}_{}_{}", meta::namespace(claim), meta::name(claim));
        let kind = annotation(claim, "volumeType").or_else(|| annotation(class, "defaultVolumeType"));
        let (source, content) = match kind {
            Some("local") => ("local", value!({"path": path})),
            _ => ("hostPath", value!({"path": path, "type": "DirectoryOrCreate"})),
        };
        let mut volume = kinds::PERSISTENT_VOLUMES.new_object("", &name);
        volume.set(
            &["metadata", "annotations"],
            value!({"pv.kubernetes.io/provisioned-by": PROVISIONER, "local.path.provisioner/selected-node": node}),
        );
        let policy = class.str_at(&["reclaimPolicy"]).unwrap_or("Delete");
        let size = claim.at(&["spec", "resources", "requests", "storage"]).cloned().unwrap_or_default();
        let modes = claim.at(&["spec", "accessModes"]).cloned().unwrap_or_default();
        volume.set(
            &["spec"],
            value!({
                "capacity": {"storage": size}, "accessModes": modes, "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": (class_of_claim(claim).unwrap_or_default()),
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": (meta::namespace(claim)), "name": (meta::name(claim)),
                    "uid": (meta::uid(claim)), "resourceVersion": (meta::resource_version(claim)),
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": HOSTNAME, "operator": "In", "values": [hostname]},
                ]}]}},
            }),
        );
        volume.set(&["spec", source], content);
        volume
    }
}

fn volume_name(claim: &Value) -> String {
    format!("pvc-{}", meta::uid(claim))
}

/// True if the binder requests a volume of this provisioner.
fn is_requested(claim: &Value) -> bool {
    let asked =
        annotation(claim, STORAGE_PROVISIONER).or_else(|| annotation(claim, BETA_STORAGE_PROVISIONER));
    asked == Some(PROVISIONER) && claim.str_at(&["spec", "volumeName"]).is_none_or(str::is_empty)
}

/// A request that a directory on one node cannot meet.
fn objection(claim: &Value, node: Option<&str>) -> Option<&'static str> {
    let single = |mode: &Str| matches!(mode.as_str(), "ReadWriteOnce" | "ReadWriteOncePod");
    if !access_modes(claim).iter().all(single) {
        Some("NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes")
    } else if is_block(claim) {
        Some("block volumes are not supported")
    } else if claim.at(&["spec", "selector"]).is_some() {
        Some("claim.Spec.Selector is not supported")
    } else if node.is_none() {
        Some("configuration error, no node was specified")
    } else {
        None
    }
}

fn failed(claim: &Value, why: &str) -> Event {
    let class = class_of_claim(claim).unwrap_or_default();
    let message = format!("failed to provision volume with StorageClass \"{class}\": {why}");
    Event::warning(PROVISIONER, claim, "ProvisioningFailed", message)
}

/// Deletes a released volume.
fn reclaim(volume: &Value) -> Plan {
    let is_due = annotation(volume, PROVISIONED_BY) == Some(PROVISIONER)
        && volume.str_at(&["status", "phase"]) == Some("Released")
        && volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == Some("Delete")
        && !meta::is_deleting(volume);
    if !is_due {
        return Plan::done();
    }
    let options = DeleteOptions { uid: Some(meta::uid(volume).into()), ..DeleteOptions::default() };
    Plan::done().then(Action::Delete { kind: &kinds::PERSISTENT_VOLUMES, key: Key::of(volume), options })
}

fn claim_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if let Some(claim) = &change.new
        && claim.view::<ClaimView>().volume.is_empty()
    {
        keys.push(claim.key.clone());
    }
}

fn volume_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if let Some(volume) = &change.new
        && volume.view::<VolumeView>().phase == "Released"
    {
        keys.push(volume.key.clone());
    }
}

#[cfg(test)]
mod tests;
