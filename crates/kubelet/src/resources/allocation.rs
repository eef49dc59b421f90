//! Resources allocated to pods: their requests at admission, until they request something else and the node has room
//! for it.
//!
//! Nothing is allocated before a pod is admitted; from then on it runs with what is allocated, never with what it
//! requests. Allocated and actuated resources are checkpointed in the pod's directory before anything is done, and
//! are removed with it.

mod conditions;
mod fit;
mod plan;
mod pod_resources;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use corten_api::{json, value};
use corten_base::files;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::containers::observed::Observed;
use crate::kubelet::Kubelet;
use crate::node;
use crate::pod::Pod;
use crate::resources::Qos;
use conditions::summary;

pub(crate) use conditions::Resizing;
pub(crate) use fit::{Lack, Requests, lacks};
pub(crate) use plan::{Resize, Step, needs_restart, resize};
pub(crate) use pod_resources::PodResources;

/// The allocations of all pods.
#[derive(Default)]
pub(crate) struct AllocationManager(Mutex<HashMap<String, PodAllocation>>);

/// The allocation of one pod.
struct PodAllocation {
    /// The pod with its requested resources.
    requested: Pod,
    /// True once the pod is admitted.
    admitted: bool,
    allocated: PodResources,
    /// The part of the allocation that is actuated in cgroups.
    actuated: PodResources,
    resizing: Resizing,
    file: PathBuf,
}

/// An event to record.
struct AllocationEvent {
    pod: Pod,
    warning: bool,
    reason: &'static str,
    message: String,
}

impl AllocationManager {
    /// Takes over a new version of a pod, and allocates to pods that wait for room. Returns the pod with its
    /// allocated resources.
    pub(crate) fn update(&self, kubelet: &Kubelet, requested: &Pod) -> Pod {
        let now = kubelet.clock.now();
        let mut allocations = self.0.lock();
        match allocations.get_mut(requested.uid()) {
            Some(allocation) => allocation.requested = requested.clone(),
            None => {
                let file = kubelet.volumes.of_pod(requested.uid()).join("resources.json");
                allocations.insert(requested.uid().to_owned(), PodAllocation::open(requested, file, now));
            }
        }
        let (changed, news) = allocate_waiting(&mut allocations, kubelet, now);
        if !changed.is_empty() {
            update_cpu_weight(&allocations, kubelet);
        }
        let allocated =
            allocations.get(requested.uid()).map(|allocation| allocation.allocated.apply_to(requested));
        drop(allocations);
        record_events(kubelet, news);
        changed
            .iter()
            .filter(|uid| *uid != requested.uid())
            .for_each(|uid| kubelet.pod_workers.sync_pod(uid));
        allocated.unwrap_or_else(|| requested.clone())
    }

    /// Admits a pod if `decide` does, given all other active pods. No other pod is admitted meanwhile.
    pub(crate) fn admit<T, E>(
        &self,
        kubelet: &Kubelet,
        pod: &Pod,
        decide: impl FnOnce(&[Pod]) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut allocations = self.0.lock();
        let decided = decide(&others(&allocations, kubelet, pod.uid()))?;
        if let Some(allocation) = allocations.get_mut(pod.uid())
            && !std::mem::replace(&mut allocation.admitted, true)
        {
            allocation.save();
        }
        update_cpu_weight(&allocations, kubelet);
        Ok(decided)
    }

    /// The actuated resources of a pod.
    pub(crate) fn actuated(&self, uid: &str) -> PodResources {
        self.0.lock().get(uid).map(|allocation| allocation.actuated.clone()).unwrap_or_default()
    }

    /// Marks a part of a pod's allocation as actuated.
    pub(crate) fn set_actuated(&self, uid: &str, step: &Step) {
        let mut allocations = self.0.lock();
        let Some(allocation) = allocations.get_mut(uid) else { return };
        let before = allocation.actuated.clone();
        allocation.actuated.take(&allocation.allocated, step);
        if allocation.actuated != before {
            allocation.save();
        }
    }

    /// The conditions of a pod's resize, given its actual state. Records an event when it is completed.
    pub(crate) fn review(&self, kubelet: &Kubelet, pod: &Pod, observed: &Observed) -> Resizing {
        let mut allocations = self.0.lock();
        let Some(allocation) = allocations.get_mut(pod.uid()) else { return Resizing::default() };
        let PodAllocation { resizing, actuated, .. } = allocation;
        let left = resize(pod, actuated, observed);
        let generation = generation(pod);
        let mut news = Vec::new();
        if !left.is_nothing() {
            resizing.proceed(generation, kubelet.clock.now());
        } else if let Some(done) = resizing.progress.take() {
            let message = summary("Pod resize completed", pod, done.generation, "");
            news.push(AllocationEvent {
                pod: pod.clone(),
                warning: false,
                reason: "ResizeCompleted",
                message,
            });
        }
        let found = resizing.clone();
        drop(allocations);
        record_events(kubelet, news);
        found
    }

    /// Records that a resize could not be actuated.
    pub(crate) fn record_failure(&self, kubelet: &Kubelet, pod: &Pod, why: &str) {
        let mut allocations = self.0.lock();
        let Some(allocation) = allocations.get_mut(pod.uid()) else { return };
        let failed = allocation.resizing.fail(generation(pod), why, kubelet.clock.now());
        drop(allocations);
        if let Some(generation) = failed {
            let message = summary("Pod resize error", pod, generation, why);
            record_events(
                kubelet,
                vec![AllocationEvent { pod: pod.clone(), warning: true, reason: "ResizeError", message }],
            );
        }
    }

    /// Forgets a pod that is gone. Its resources are available to others.
    pub(crate) fn forget(&self, kubelet: &Kubelet, uid: &str) {
        let mut allocations = self.0.lock();
        allocations.remove(uid);
        let (changed, news) = allocate_waiting(&mut allocations, kubelet, kubelet.clock.now());
        update_cpu_weight(&allocations, kubelet);
        drop(allocations);
        record_events(kubelet, news);
        changed.iter().for_each(|uid| kubelet.pod_workers.sync_pod(uid));
    }
}

impl PodAllocation {
    /// The checkpointed allocation of a pod, or a new one.
    fn open(requested: &Pod, file: PathBuf, now: Timestamp) -> PodAllocation {
        let resizing = Resizing::read(requested, now);
        if let Some((allocated, actuated)) = read(&file) {
            return PodAllocation {
                requested: requested.clone(),
                admitted: true,
                allocated,
                actuated,
                resizing,
                file,
            };
        }
        let allocated = PodResources::of(requested);
        let actuated = allocated.clone();
        PodAllocation { requested: requested.clone(), admitted: false, allocated, actuated, resizing, file }
    }

    fn has_ended(&self) -> bool {
        matches!(self.requested.tree().str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
    }

    fn save(&self) {
        let tree = value!({"allocated": (self.allocated.written()), "actuated": (self.actuated.written())});
        if let Err(err) = write(&self.file, &json::write_to_string(&tree)) {
            tracing::warn!(pod = %self.requested.key(), %err, "cannot checkpoint allocated resources");
        }
    }
}

/// Allocates requested resources to the pods that wait, as far as there is room, in their order. Returns the uids of
/// changed pods, and the events to record.
fn allocate_waiting(
    allocations: &mut HashMap<String, PodAllocation>,
    kubelet: &Kubelet,
    now: Timestamp,
) -> (Vec<String>, Vec<AllocationEvent>) {
    let (mut changed, mut news) = (Vec::new(), Vec::new());
    for allocation in allocations
        .values_mut()
        .filter(|allocation| allocation.allocated == PodResources::of(&allocation.requested))
    {
        if allocation.resizing.pending.take().is_some() {
            changed.push(allocation.requested.uid().to_owned());
        }
    }
    let waiting = waiting_pods(allocations);
    if waiting.is_empty() {
        return (changed, news);
    }
    let allocatable = node::allocatable(kubelet);
    for uid in waiting {
        let others = others(allocations, kubelet, &uid);
        let Some(allocation) = allocations.get_mut(&uid) else { continue };
        let pod = allocation.requested.clone();
        let generation = generation(&pod);
        match lacks(&pod, &others, &allocatable).first() {
            None => {
                allocation.allocated = PodResources::of(&pod);
                allocation.save();
                allocation.resizing = Resizing::default();
                allocation.resizing.proceed(generation, now);
                let message = summary("Pod resize started", &pod, generation, "");
                news.push(AllocationEvent { pod, warning: false, reason: "ResizeStarted", message });
                changed.push(uid);
            }
            Some(lack) => {
                let why = lack.to_string();
                if allocation.resizing.defer(generation, &why, now) {
                    let beginning = format!("Pod resize {}", lack.reason());
                    let message = summary(&beginning, &pod, generation, &why);
                    news.push(AllocationEvent { pod, warning: true, reason: "ResizeDeferred", message });
                    changed.push(uid);
                }
            }
        }
    }
    (changed, news)
}

/// The pods whose requests differ from their allocation. First those that request no more; then by priority, QoS
/// class, and the time they have been waiting.
fn waiting_pods(allocations: &HashMap<String, PodAllocation>) -> Vec<String> {
    let mut waiting: Vec<&PodAllocation> = allocations
        .values()
        .filter(|allocation| !allocation.has_ended() && allocation.requested.deleted_at().is_none())
        .filter(|allocation| allocation.allocated != PodResources::of(&allocation.requested))
        .collect();
    waiting.sort_by_cached_key(|allocation| {
        let requests_more =
            fit::requests_more(&allocation.requested, &allocation.allocated.apply_to(&allocation.requested));
        let priority = allocation.requested.tree().int_at(&["spec", "priority"]).unwrap_or(0);
        let guaranteed = allocation.requested.tree().str_at(&["status", "qosClass"]) == Some("Guaranteed");
        let since = allocation.resizing.pending.as_ref().map_or(Timestamp::MAX, |pending| pending.since);
        (
            requests_more,
            std::cmp::Reverse(priority),
            !guaranteed,
            since,
            allocation.requested.uid().to_owned(),
        )
    });
    waiting.into_iter().map(|allocation| allocation.requested.uid().to_owned()).collect()
}

fn generation(pod: &Pod) -> i64 {
    pod.tree().int_at(&["metadata", "generation"]).unwrap_or(0)
}

/// All other admitted pods that may have running containers, with their allocated resources. A pod that started
/// before this process counts although its worker has not synced yet.
fn others(allocations: &HashMap<String, PodAllocation>, kubelet: &Kubelet, uid: &str) -> Vec<Pod> {
    let pods = kubelet.pod_workers.active_pods().into_iter().filter(|pod| pod.uid() != uid);
    pods.filter_map(|pod| match allocations.get(pod.uid()) {
        Some(allocation) => allocation.admitted.then(|| allocation.allocated.apply_to(&allocation.requested)),
        None => pod.has_started().then_some(pod),
    })
    .collect()
}

/// Sets the cpu weight of the burstable class to the sum of its pods' requests.
fn update_cpu_weight(allocations: &HashMap<String, PodAllocation>, kubelet: &Kubelet) {
    let pods = others(allocations, kubelet, "");
    let burstable = pods.iter().filter(|pod| Qos::of(pod) == Qos::Burstable);
    let milli_cpu = burstable.map(|pod| Requests::of(pod).amount("cpu")).sum();
    if let Err(err) = kubelet.resources.cgroups.set_cpu_weight(Qos::Burstable, milli_cpu) {
        tracing::warn!(%err, "cannot set cpu weight of burstable cgroup");
    }
}

fn record_events(kubelet: &Kubelet, news: Vec<AllocationEvent>) {
    for AllocationEvent { pod, warning, reason, message } in news {
        match warning {
            true => kubelet.api.pod_events(&pod).warning(reason, message),
            false => kubelet.api.pod_events(&pod).normal(reason, message),
        }
    }
}

fn read(file: &Path) -> Option<(PodResources, PodResources)> {
    let text = std::fs::read(file).ok()?;
    let tree = json::parse(&text).ok()?;
    Some((PodResources::read(tree.get("allocated")?), PodResources::read(tree.get("actuated")?)))
}

/// Writes a file atomically.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    files::private_directory(folder)?;
    let draft = folder.join(".resources.json");
    files::write_private(&draft, text)?;
    std::fs::rename(&draft, file)
}
