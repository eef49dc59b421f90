//! The reconcile of a claim: bound to a volume, pending, or lost with its volume.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta, time};
use corten_client::{Caches, Key, Object, kinds};
use corten_reconcile::{Event, Plan};

use super::{BinderOptions, COMPONENT, FREE_VOLUMES_BY_CLASS, binding, matching};
use crate::pods::Pod;
use crate::storage::{
    self, BETA_STORAGE_PROVISIONER, BIND_COMPLETED, PODS_BY_CLAIM, SELECTED_NODE, STORAGE_PROVISIONER,
    VOLUMES_BY_CLAIM, VolumeView, annotation, class_of_claim, migration, update,
};

/// Events expire after an hour: the reason of a pending claim is reported again before that.
const TELL_AGAIN: Duration = Duration::from_secs(45 * 60);

/// The state of one claim.
#[derive(Debug, Default)]
pub(crate) struct ClaimWorld {
    pub(super) claim: Value,
    /// The volume it names.
    pub(super) volume: Option<Arc<Object>>,
    /// Its storage class.
    pub(super) class: Option<Value>,
    /// The default storage class, if it names none.
    pub(super) default_class: Option<Str>,
    /// The volumes that may match.
    pub(super) candidates: Vec<Arc<Object>>,
    /// Its pods that are not bound to a node.
    pub(super) waiting_pods: Vec<Str>,
}

pub(super) fn observe(caches: &Caches, key: &Key) -> Option<ClaimWorld> {
    let claim = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(key)?.tree();
    let mut world = ClaimWorld { claim, ..ClaimWorld::default() };
    if let Some(volume) = volume_name(&world.claim) {
        world.volume = caches.of(&kinds::PERSISTENT_VOLUMES).get(&Key::new("", volume));
        return Some(world);
    }
    let classes = caches.of(&kinds::STORAGE_CLASSES);
    match class_of_claim(&world.claim) {
        Some(class) => world.class = classes.get(&Key::new("", class)).map(|class| class.tree()),
        None => {
            let all: Vec<Value> = classes.list("").iter().map(|class| class.tree()).collect();
            world.default_class = default_class(&all);
        }
    }
    let class = class_of_claim(&world.claim).unwrap_or_default();
    world.candidates = caches.by(&VOLUMES_BY_CLAIM, key);
    world.candidates.extend(caches.by(&FREE_VOLUMES_BY_CLASS, &Key::new("", class)));
    let pods = caches.by(&PODS_BY_CLAIM, key).into_iter().map(Pod::from);
    let waiting = pods.filter(|pod| pod.view.node.is_empty() && !pod.is_finished());
    world.waiting_pods = waiting.map(|pod| pod.object.key.name.clone()).collect();
    Some(world)
}

/// The newest of the default classes.
pub(super) fn default_class(classes: &[Value]) -> Option<Str> {
    let created = |class: &&Value| {
        let at = class.str_at(&["metadata", "creationTimestamp"]).and_then(|text| time::parse(text).ok());
        (std::cmp::Reverse(at), Str::new(meta::name(class)))
    };
    let newest = classes.iter().filter(|class| storage::is_default_class(class)).min_by_key(created);
    newest.map(|class| meta::name(class).into())
}

fn volume_name(claim: &Value) -> Option<&str> {
    claim.str_at(&["spec", "volumeName"]).filter(|name| !name.is_empty())
}

pub(super) fn plan(world: &ClaimWorld, options: &BinderOptions) -> Plan {
    if let Some(migrated) = migration::of_claim(&world.claim) {
        return Plan::done().then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, migrated, ""));
    }
    let is_bound = annotation(&world.claim, BIND_COMPLETED).is_some();
    match volume_name(&world.claim) {
        None if is_bound => lost(
            world,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        Some(_) if is_bound => bound(world),
        Some(volume) => asking(world, volume),
        None => unbound(world, options),
    }
}

/// A claim without a volume name.
fn unbound(world: &ClaimWorld, options: &BinderOptions) -> Plan {
    let claim = &world.claim;
    let delayed = world.class.as_ref().is_some_and(storage::waits_for_consumer);
    if let Some(volume) = matching::best(claim, &world.candidates, delayed) {
        return bind(claim, &volume);
    }
    if let Some(class) = &world.default_class {
        let mut claim = claim.clone();
        claim.set(&["spec", "storageClassName"], class.clone());
        return Plan::done().then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, claim, ""));
    }
    let class = class_of_claim(claim).unwrap_or_default();
    if delayed && annotation(claim, SELECTED_NODE).is_none() {
        return pending(claim, wait_for_consumer(world)).requeue_after(TELL_AGAIN);
    }
    if !class.is_empty() {
        return provision(world, class, options);
    }
    let message = "no persistent volumes available for this claim and no storage class is set";
    pending(claim, Event::normal(COMPONENT, claim, "FailedBinding", message)).requeue_after(TELL_AGAIN)
}

fn wait_for_consumer(world: &ClaimWorld) -> Event {
    let pods = world.waiting_pods.join(",");
    let (reason, message) = match world.waiting_pods.len() {
        0 => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        1 => ("WaitForPodScheduled", format!("waiting for pod {pods} to be scheduled")),
        _ => ("WaitForPodScheduled", format!("waiting for pods {pods} to be scheduled")),
    };
    Event::normal(COMPONENT, &world.claim, reason, message)
}

/// Requests a volume from the provisioner.
fn provision(world: &ClaimWorld, class: &str, options: &BinderOptions) -> Plan {
    if !options.enable_dynamic_provisioning {
        return Plan::done();
    }
    let claim = &world.claim;
    let failed = |message: String| {
        let event = Event::warning(COMPONENT, claim, "ProvisioningFailed", message);
        Plan::done().event(event).requeue_after(TELL_AGAIN)
    };
    let Some(class) = &world.class else {
        return failed(format!("storageclass.storage.k8s.io \"{class}\" not found"));
    };
    let named = class.str_at(&["provisioner"]).unwrap_or_default();
    let provisioner = match migration::driver(named) {
        Some(driver) => driver,
        None if named.starts_with("kubernetes.io/") => {
            return failed(format!("no volume plugin matched name: {named}"));
        }
        None => named,
    };
    if annotation(claim, STORAGE_PROVISIONER) != Some(provisioner) {
        let mut claim = claim.clone();
        claim.set(&["metadata", "annotations", BETA_STORAGE_PROVISIONER], provisioner);
        claim.set(&["metadata", "annotations", STORAGE_PROVISIONER], provisioner);
        return Plan::done().then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, claim, ""));
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    let event = Event::normal(COMPONENT, claim, "ExternalProvisioning", message);
    Plan::done().event(event).requeue_after(TELL_AGAIN)
}

/// A claim that names a volume.
fn asking(world: &ClaimWorld, name: &str) -> Plan {
    let claim = &world.claim;
    let Some(object) = &world.volume else {
        return still_pending(claim);
    };
    let view = object.view::<VolumeView>();
    if view.claim.is_none() {
        let Some(objection) = matching::objection(claim, &object.tree(), &view) else {
            return bind(claim, object);
        };
        let message = format!("Cannot bind to requested volume \"{name}\": {objection}");
        return pending(claim, Event::warning(COMPONENT, claim, "VolumeMismatch", message));
    }
    if binding::is_for(&view, claim) {
        return bind(claim, object);
    }
    let message = format!("volume \"{name}\" already bound to a different claim.");
    let event = Event::warning(COMPONENT, claim, "FailedBinding", message);
    if annotation(claim, storage::BOUND_BY_CONTROLLER).is_some() {
        // Something removed its binding: its other fields cannot be trusted.
        return Plan::done().event(event);
    }
    pending(claim, event)
}

/// A claim that has been bound once.
fn bound(world: &ClaimWorld) -> Plan {
    let Some(object) = &world.volume else {
        return lost(
            world,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
    };
    match &object.view::<VolumeView>().claim {
        Some((_, uid)) if uid != meta::uid(&world.claim) => {
            let message = "Two claims are bound to the same volume, this one is bound incorrectly";
            lost(world, "ClaimMisbound", message)
        }
        _ => bind(&world.claim, object),
    }
}

fn bind(claim: &Value, volume: &Object) -> Plan {
    let actions = binding::bind(&volume.tree(), &volume.view(), claim);
    actions.into_iter().fold(Plan::done(), Plan::then)
}

fn still_pending(claim: &Value) -> Plan {
    binding::claim_phase(claim, "Pending", None).into_iter().fold(Plan::done(), Plan::then)
}

fn pending(claim: &Value, event: Event) -> Plan {
    still_pending(claim).event(event)
}

/// A lost claim, reported once.
fn lost(world: &ClaimWorld, reason: &'static str, message: &str) -> Plan {
    let claim = &world.claim;
    if claim.str_at(&["status", "phase"]) == Some("Lost") {
        return Plan::done();
    }
    let plan = binding::claim_phase(claim, "Lost", None).into_iter().fold(Plan::done(), Plan::then);
    plan.event(Event::warning(COMPONENT, claim, reason, message))
}
