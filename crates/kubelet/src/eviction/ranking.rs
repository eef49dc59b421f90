//! The order in which pods are evicted. Pure.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use crate::pod::Pod;
use crate::resources;
use crate::stats::{FsStats, PodStats};

use super::thresholds::Signal;

/// The disk usage of a pod that counts for a signal.
#[derive(Debug, Clone, Copy)]
struct Counted {
    layers: bool,
    logs: bool,
    volumes: bool,
}

/// Sorts pods in order of eviction: those whose usage exceeds their requests first, then by priority, then by how
/// much they exceed their requests. A pod without statistics comes first.
pub(super) fn rank(pods: &mut [Pod], signal: Signal, has_dedicated_image_fs: bool, stats: &[PodStats]) {
    let known: HashMap<&str, &PodStats> = stats.iter().map(|stats| (stats.pod.uid(), stats)).collect();
    let of = |pod: &Pod| known.get(pod.uid()).copied();
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => {
            pods.sort_by(|a, b| by_excess(a, b, &|pod| Some((memory(of(pod)?), asked(pod, "memory")))));
        }
        Signal::PidAvailable => pods.sort_by(|a, b| {
            let processes = |pod: &Pod| of(pod).map(|stats| stats.processes.unwrap_or(0));
            let by_use = unknown_first(processes(a), processes(b), |a, b| b.cmp(&a));
            priority(a).cmp(&priority(b)).then(by_use)
        }),
        _ => {
            let counted = counted(signal, has_dedicated_image_fs);
            let inodes = signal.resource() == "inodes";
            pods.sort_by(|a, b| {
                by_excess(a, b, &|pod| {
                    let used = disk(of(pod)?, counted, inodes);
                    Some((used, if inodes { 0 } else { asked(pod, "ephemeral-storage") }))
                })
            });
        }
    }
}

/// Compares two pods by usage and requests.
fn by_excess(a: &Pod, b: &Pod, of: &dyn Fn(&Pod) -> Option<(i64, i64)>) -> Ordering {
    let exceeds = |(used, asked): (i64, i64)| used > asked;
    let beyond = |(used, asked): (i64, i64)| used.saturating_sub(asked);
    let (first, second) = (of(a), of(b));
    unknown_first(first, second, |x, y| Reverse(exceeds(x)).cmp(&Reverse(exceeds(y))))
        .then(priority(a).cmp(&priority(b)))
        .then_with(|| unknown_first(first, second, |x, y| beyond(y).cmp(&beyond(x))))
}

fn unknown_first<T>(a: Option<T>, b: Option<T>, compare: impl Fn(T, T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn priority(pod: &Pod) -> i64 {
    pod.tree().int_at(&["spec", "priority"]).unwrap_or(0)
}

fn memory(stats: &PodStats) -> i64 {
    let used = stats.memory.as_ref().and_then(|memory| memory.working_set_bytes).unwrap_or(0);
    i64::try_from(used).unwrap_or(i64::MAX)
}

fn asked(pod: &Pod, resource: &str) -> i64 {
    resources::total_requests(pod, resource)
}

/// The usage that counts: with a file system of their own for images, layers are on that and everything else is on
/// the node's.
fn counted(signal: Signal, has_dedicated_image_fs: bool) -> Counted {
    if !has_dedicated_image_fs {
        return Counted { layers: true, logs: true, volumes: true };
    }
    match signal.is_of_node_fs() {
        true => Counted { layers: false, logs: true, volumes: true },
        false => Counted { layers: true, logs: false, volumes: false },
    }
}

fn disk(stats: &PodStats, counted: Counted, inodes: bool) -> i64 {
    let used = |fs: &FsStats| if inodes { fs.inodes_used } else { fs.used };
    let containers = stats.containers.iter().map(|container| {
        let layer = container.rootfs.as_ref().filter(|_| counted.layers).map_or(0, used);
        layer + container.logs.as_ref().filter(|_| counted.logs).map_or(0, used)
    });
    let volumes = stats.volumes.iter().filter(|volume| counted.volumes && volume.ephemeral);
    let all = containers.sum::<u64>() + volumes.map(|volume| used(&volume.fs)).sum::<u64>();
    i64::try_from(all).unwrap_or(i64::MAX)
}
