//! The actions on each node: missing pods, surplus pods, and pods of an old template.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_reconcile::Event;
use jiff::Timestamp;

use super::{COMPONENT, World, min_ready, template};
use crate::limits::{self, Round};
use crate::pods::Pod;

/// The age at which a failed pod is replaced, so that a pod that always fails does not cause a hot loop.
const FAILED: Duration = Duration::from_secs(60);

/// The pods to create and delete.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The nodes that need a pod.
    pub(super) create: Vec<Str>,
    pub(super) delete: Vec<Pod>,
    pub(super) events: Vec<Event>,
    pub(super) requeue_after: Option<Duration>,
}

impl Work {
    pub(super) fn is_nothing(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// The pods of each node, bound and older ones first. Finished pods that are terminating count as gone.
fn pods_by_node(world: &World) -> BTreeMap<Str, Vec<Pod>> {
    let mut by_node: BTreeMap<Str, Vec<Pod>> = BTreeMap::new();
    for pod in world.pods.owned.iter().cloned().map(Pod::from) {
        if !(pod.is_finished() && pod.object.deleting)
            && let Some(node) = template::node_of(&pod)
        {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_key(|pod| (pod.view.node.is_empty(), pod.view.created, pod.object.key.name.clone()));
    }
    by_node
}

/// One pod on each node where one should run, none elsewhere.
pub(super) fn manage(world: &World, set: &Value, hash: &str, now: Timestamp) -> Work {
    let mut work = Work::default();
    let by_node = pods_by_node(world);
    for (name, node) in &world.nodes {
        match by_node.get(name) {
            None if node.should_run => work.create.push(name.clone()),
            Some(pods) if node.may_stay => {
                let running = sort_out(set, name, pods, &mut work, now);
                if limit(set, "maxSurge", 1) == 0 {
                    work.delete.extend(running.into_iter().skip(1));
                } else if running.is_empty() && node.should_run {
                    work.create.push(name.clone());
                } else {
                    keep_two(set, hash, running, &mut work, now);
                }
            }
            Some(pods) => work.delete.extend(pods.iter().filter(|pod| !pod.object.deleting).cloned()),
            None => {}
        }
    }
    // Pods for deleted nodes would stay pending forever.
    let lost = by_node.iter().filter(|(name, _)| !world.nodes.contains_key(*name)).flat_map(|(_, pods)| pods);
    work.delete.extend(lost.filter(|pod| pod.view.node.is_empty()).cloned());
    work
}

/// The pods of a node that neither finished nor are terminating; finished ones are replaced.
fn sort_out(set: &Value, node: &str, pods: &[Pod], work: &mut Work, now: Timestamp) -> Vec<Pod> {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.object.deleting) {
        let key = &pod.object.key;
        match pod.view.phase.as_str() {
            "Failed" => {
                let age = pod.view.created.map(|at| now.duration_since(at).unsigned_abs()).unwrap_or(FAILED);
                if age < FAILED {
                    let delay = FAILED - age;
                    work.requeue_after = Some(work.requeue_after.map_or(delay, |other| other.min(delay)));
                    continue;
                }
                let message = format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                work.events.push(Event::warning(COMPONENT, set, "FailedDaemonPod", message));
                work.delete.push(pod.clone());
            }
            "Succeeded" => {
                let message =
                    format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                work.events.push(Event::normal(COMPONENT, set, "SucceededDaemonPod", message));
                work.delete.push(pod.clone());
            }
            _ => running.push(pod.clone()),
        }
    }
    running
}

/// While surging, a node may have an old pod and a new one until the new one is available.
fn keep_two(set: &Value, hash: &str, running: Vec<Pod>, work: &mut Work, now: Timestamp) {
    if running.len() <= 1 {
        return;
    }
    let (new, old): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|pod| template::is_updated(pod, set, hash));
    work.delete.extend(
        new.iter()
            .chain(&old)
            .filter(|pod| {
                let first =
                    |pods: &[Pod]| pods.first().is_some_and(|first| first.object.uid == pod.object.uid);
                !first(&new) && !first(&old)
            })
            .cloned(),
    );
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.view.ready || new.is_available(min_ready(set), now))
    {
        work.delete.push(old.clone());
    }
}

/// A limit of the rolling update, as a number of nodes.
fn limit(set: &Value, name: &str, nodes: usize) -> usize {
    if set.str_at(&["spec", "updateStrategy", "type"]) == Some("OnDelete") {
        return 0;
    }
    let value = set.at(&["spec", "updateStrategy", "rollingUpdate", name]);
    let number = value.and_then(|value| limits::scaled(value, nodes as i64, Round::Up));
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

/// The old and the new pod of a node; `None` if there is more than one of either.
fn old_and_new<'a>(set: &Value, hash: &str, pods: &'a [Pod]) -> Option<(Option<&'a Pod>, Option<&'a Pod>)> {
    let (new, old): (Vec<_>, Vec<_>) =
        pods.iter().filter(|pod| !pod.object.deleting).partition(|pod| template::is_updated(pod, set, hash));
    (new.len() <= 1 && old.len() <= 1).then(|| (old.first().copied(), new.first().copied()))
}

/// Replaces pods of old templates within maxUnavailable or maxSurge.
pub(super) fn roll(world: &World, set: &Value, hash: &str, now: Timestamp) -> Work {
    if set.str_at(&["spec", "updateStrategy", "type"]) == Some("OnDelete") {
        return Work::default();
    }
    let mut by_node = pods_by_node(world);
    let wanted = world.nodes.iter().filter(|(_, node)| node.should_run);
    let count = wanted.clone().count();
    for (name, _) in wanted {
        by_node.entry(name.clone()).or_default();
    }
    let (surge, unavailable) = (limit(set, "maxSurge", count), limit(set, "maxUnavailable", count));
    match surge {
        0 => replace(set, hash, &by_node, if count > 0 { unavailable.max(1) } else { unavailable }, now),
        surge => add(world, set, hash, &by_node, surge, count, now),
    }
}

/// Deletes old pods first; their replacements follow.
fn replace(set: &Value, hash: &str, by_node: &BTreeMap<Str, Vec<Pod>>, most: usize, now: Timestamp) -> Work {
    let (mut missing, mut broken, mut working) = (0, Vec::new(), Vec::new());
    let available = |pod: &Pod| pod.is_available(min_ready(set), now);
    for pods in by_node.values() {
        match old_and_new(set, hash, pods) {
            Some((None, Some(new))) => missing += usize::from(!available(new)),
            Some((Some(old), None)) if available(old) => working.push(old.clone()),
            Some((Some(old), None)) => {
                missing += 1;
                broken.push(old.clone());
            }
            _ => missing += 1,
        }
    }
    broken.extend(working.into_iter().take(most.saturating_sub(missing)));
    Work { delete: broken, ..Work::default() }
}

/// Creates new pods beside the old ones, which are deleted once the new ones are available.
fn add(
    world: &World,
    set: &Value,
    hash: &str,
    by_node: &BTreeMap<Str, Vec<Pod>>,
    most: usize,
    wanted: usize,
    now: Timestamp,
) -> Work {
    let available = |pod: &Pod| pod.is_available(min_ready(set), now);
    let should_run = |node: &Str| world.nodes.get(node).is_some_and(|node| node.should_run);
    let (mut work, mut surging, mut working) = (Work::default(), 0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (name, pods) in by_node {
        let Some((old, new)) = old_and_new(set, hash, pods) else {
            surging += 1;
            continue;
        };
        working += usize::from(old.or(new).is_some_and(available));
        match (old, new) {
            (None, _) => {}
            (Some(old), Some(new)) if available(new) => work.delete.push(old.clone()),
            (Some(_), Some(_)) => surging += 1,
            (Some(old), None) => match (available(old), should_run(name)) {
                (false, false) => work.delete.push(old.clone()),
                (false, true) => work.create.push(name.clone()),
                (true, false) => unwanted.push(old.clone()),
                (true, true) => candidates.push(name.clone()),
            },
        }
    }
    work.delete.extend(unwanted.into_iter().take(working.saturating_sub(wanted)));
    work.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
    work
}

/// The status, given the existing pods.
pub(super) fn status(world: &World, set: &Value, hash: &str, now: Timestamp) -> Value {
    let by_node = pods_by_node(world);
    let [mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available] = [0i64; 6];
    for (name, node) in &world.nodes {
        let first = by_node.get(name).and_then(|pods| pods.first());
        desired += i64::from(node.should_run);
        misscheduled += i64::from(!node.should_run && first.is_some());
        if let Some(pod) = first.filter(|_| node.should_run) {
            current += 1;
            ready += i64::from(pod.view.ready);
            available += i64::from(pod.is_available(min_ready(set), now));
            updated += i64::from(template::is_updated(pod, set, hash));
        }
    }
    let mut status = set.get("status").cloned().unwrap_or_else(Value::object);
    for (field, count) in [
        ("currentNumberScheduled", current),
        ("desiredNumberScheduled", desired),
        ("numberMisscheduled", misscheduled),
        ("numberReady", ready),
    ] {
        status.set(&[field], count);
    }
    for (field, count) in [
        ("observedGeneration", meta::generation(set)),
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
    ] {
        // Zero counts are left out, as the API server encodes them.
        match count {
            0 => drop(status.remove(&[field])),
            count => status.set(&[field], count),
        }
    }
    status
}
