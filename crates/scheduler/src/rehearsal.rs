//! Scheduling without a cluster, for benchmarks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corten_api::{Value, meta};
use corten_client::Key;
use jiff::Timestamp;

use crate::config::Config;
use crate::engine::{Change, Engine, Step};
use crate::node::Node;
use crate::pod::{Pod, Shapes};

/// The result of a rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rehearsed {
    /// The number of scheduled pods.
    pub placed: usize,
    /// The time of the decisions, without reading nodes and pods.
    pub took: Duration,
}

/// Schedules pods, one after the other, as if every binding succeeded; some may be bound already. Victims are deleted
/// when there is nothing left to decide.
pub fn rehearse(nodes: impl Iterator<Item = Value>, pods: impl Iterator<Item = Value>) -> Rehearsed {
    let now = Timestamp::UNIX_EPOCH;
    let shapes = Shapes::default();
    let mut engine = Engine::new(Config::default(), 1);
    for node in nodes {
        let (name, node) = (meta::name(&node).into(), Some(Arc::new(Node::of(&node))));
        engine.apply(Change::Node { name, node }, now);
    }
    for pod in pods {
        let (key, pod) = (Key::of(&pod), Some(Arc::new(Pod::of(&pod, &shapes))));
        engine.apply(Change::Pod { key, pod }, now);
    }
    let (started, mut placed, mut leaving) = (Instant::now(), 0, Vec::new());
    loop {
        match engine.step(now) {
            Step::Bind { pod, .. } => {
                engine.apply(Change::Bound { uid: pod.uid.clone(), outcome: Ok(()) }, now);
                placed += 1;
            }
            Step::Preempt { pod, victims, .. } => {
                engine.apply(Change::Preempted { uid: pod.uid.clone(), agreed: true }, now);
                leaving.extend(victims);
            }
            Step::Wait(_) if leaving.is_empty() => return Rehearsed { placed, took: started.elapsed() },
            Step::Wait(_) => {
                for victim in leaving.drain(..) {
                    engine.apply(Change::Pod { key: victim.key.clone(), pod: None }, now);
                }
            }
            _ => {}
        }
    }
}
