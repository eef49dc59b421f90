//! The samples of two scrapes, and the usage between them.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Map, Value};
use jiff::Timestamp;

/// The minimum run time of a container that is measured from its start alone.
const LEAST_RUN: Duration = Duration::from_secs(10);

/// The sample of a node or container at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Point {
    pub(super) at: Timestamp,
    /// The start time; `None` for nodes.
    pub(super) started: Option<Timestamp>,
    /// Seconds of CPU time since then.
    pub(super) cpu: f64,
    /// Bytes.
    pub(super) memory: u64,
}

/// Namespace and name.
pub(super) type PodName = (String, String);
type Containers = BTreeMap<String, Point>;

/// The samples of all kubelets in one scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Batch {
    pub(super) nodes: BTreeMap<String, Point>,
    pub(super) pods: BTreeMap<PodName, Containers>,
}

/// The last scrape, and for each node and container the sample before it.
#[derive(Debug, Default)]
pub(crate) struct Points {
    last: Batch,
    before: Batch,
}

/// The usage of a node or container between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    pub(super) at: Timestamp,
    pub(super) window: Duration,
    /// In billionths of a CPU.
    pub(super) cpu: u64,
    pub(super) memory: u64,
}

impl Used {
    fn between(before: Point, last: Point) -> Option<Used> {
        let window = span(before.at, last.at);
        if window.is_zero() || last.cpu < before.cpu {
            return None;
        }
        let cpu = (last.cpu - before.cpu) / window.as_secs_f64() * 1e9;
        Some(Used { at: last.at, window, cpu: cpu as u64, memory: last.memory })
    }

    pub(super) fn tree(&self) -> Value {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut usage = Map::new();
        usage.insert("cpu", Quantity::scaled(whole(self.cpu), -9, Format::DecimalSi).to_str());
        usage.insert("memory", Quantity::new(whole(self.memory), Format::BinarySi).to_str());
        Value::Object(usage)
    }
}

impl Points {
    /// Adds a scrape. An early one, because of a new node, counts only for new nodes and containers.
    pub(super) fn take(&mut self, batch: Batch, early: bool) {
        let mut before = Batch::default();
        for (node, point) in &batch.nodes {
            let known = Known { last: self.last.nodes.get(node), before: self.before.nodes.get(node), early };
            before.nodes.extend(known.before(point).map(|point| (node.clone(), point)));
        }
        for (pod, containers) in &batch.pods {
            let of = |batch: &Batch, name: &str| batch.pods.get(pod).and_then(|c| c.get(name)).copied();
            let found = containers.iter().filter_map(|(name, point)| {
                let (last, older) = (of(&self.last, name), of(&self.before, name));
                let known = Known { last: last.as_ref(), before: older.as_ref(), early };
                Some((name.clone(), known.before(point)?))
            });
            let found: Containers = found.collect();
            if !found.is_empty() {
                before.pods.insert(pod.clone(), found);
            }
        }
        *self = Points { last: batch, before };
    }

    pub(super) fn of_node(&self, name: &str) -> Option<Used> {
        Used::between(*self.before.nodes.get(name)?, *self.last.nodes.get(name)?)
    }

    /// The usage of every container of a pod; `None` if one is missing.
    pub(super) fn of_pod(&self, namespace: &str, name: &str) -> Option<Vec<(String, Used)>> {
        let pod = (namespace.to_owned(), name.to_owned());
        let before = self.before.pods.get(&pod)?;
        let mut used = Vec::new();
        for (container, last) in self.last.pods.get(&pod)? {
            let older = before.get(container)?;
            used.extend(Used::between(*older, *last).map(|used| (container.clone(), used)));
        }
        Some(used)
    }
}

/// The samples of a node or container before a new one.
struct Known<'a> {
    last: Option<&'a Point>,
    before: Option<&'a Point>,
    early: bool,
}

impl Known<'_> {
    /// The sample to compare a new one with.
    fn before(&self, new: &Point) -> Option<Point> {
        if let Some(started) = new.started {
            let ran = span(started, new.at);
            if ran >= LEAST_RUN && ran < super::RESOLUTION {
                return Some(Point { at: started, cpu: 0.0, ..*new });
            }
        }
        let last = self.last.filter(|last| new.started.is_none_or(|started| started < last.at))?;
        let kept = self.before.filter(|before| before.at < new.at);
        match last.at < new.at {
            true if self.early => Some(kept.copied().unwrap_or(*last)),
            true => Some(*last),
            false => kept.copied(),
        }
    }
}

fn span(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
