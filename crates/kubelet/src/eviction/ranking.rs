//! Who goes first when the node is short of something. Pure.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use crate::pod::Pod;
use crate::resources;
use crate::stats::{FsStats, PodStats};

use super::thresholds::Signal;

/// What of a pod counts when a disk is short.
#[derive(Debug, Clone, Copy)]
struct Counted {
    layers: bool,
    logs: bool,
    volumes: bool,
}

/// Puts those first that should go first: who uses more than was asked for, then who matters less, then who uses
/// most beyond what was asked for. One of whom nothing is known goes before all others.
pub(super) fn rank(pods: &mut [Pod], signal: Signal, images_apart: bool, stats: &[PodStats]) {
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
            let counted = counted(signal, images_apart);
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

/// Compares by what is used and what was asked for.
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
    resources::asked_together(pod, resource)
}

/// With a disk of their own for images, layers are on that and everything else is on the node's.
fn counted(signal: Signal, images_apart: bool) -> Counted {
    if !images_apart {
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
