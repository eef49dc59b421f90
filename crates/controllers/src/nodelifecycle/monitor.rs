//! Looks at every node now and then, and does what follows from who is silent.
//!
//! A look costs a comparison per node; only what changed is read and only what has to be is written. Nothing
//! happens without nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corten_api::Str;
use corten_client::{Cache, Caches, Error, Key, Object, kinds};
use corten_reconcile::Manager;
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;

use super::health::{Health, LeaseView, after};
use super::writes::{self, NotSilent, Writes};
use super::zones::{Shift, Tally, Zones};
use super::{NAME, NodeLifecycleOptions};
use crate::nodes::{self, NodeView, Status};
use crate::taints;

const LEASES: &str = "kube-node-lease";
/// Nodes with this label do not count when zones are weighed.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// How many nodes are written about at a time.
const AT_A_TIME: usize = 8;

pub(super) struct Monitor {
    options: NodeLifecycleOptions,
    writes: Writes,
    nodes: Arc<Cache>,
    leases: Arc<Cache>,
    caches: Caches,
    /// Nodes that were seen, with their uids.
    known: HashMap<Str, Str>,
    healths: HashMap<Str, Health>,
    zones: Zones,
    /// Nodes whose pods could not all be said not to be ready.
    unfinished: HashSet<Str>,
    /// Leases are not believed before this version of them has been seen.
    behind: u64,
}

/// A node in one look.
struct Seen {
    node: Arc<Object>,
    view: Arc<NodeView>,
    /// Whether it was ready before this look, and whether it is after it, if that can be said.
    before: Status,
    after: Option<Status>,
}

impl Monitor {
    pub(super) fn new(manager: &Manager, options: NodeLifecycleOptions) -> Monitor {
        let caches = manager.caches();
        caches.index(&nodes::PODS);
        Monitor {
            zones: Zones::new(options.rates.clone()),
            options,
            writes: Writes::new(manager),
            nodes: caches.of(&kinds::NODES),
            leases: caches.of(&kinds::LEASES),
            caches: caches.clone(),
            known: HashMap::new(),
            healths: HashMap::new(),
            unfinished: HashSet::new(),
            behind: 0,
        }
    }

    pub(super) async fn run(mut self) {
        for cache in [&self.nodes, &self.leases, &self.caches.of(&kinds::PODS)] {
            cache.synced().await;
        }
        let mut changes = self.nodes.changes();
        loop {
            changes.skip();
            self.look().await;
            if self.known.is_empty() {
                changes.next().await;
            } else {
                self.give_up_until(after(self.now(), self.options.monitor_period)).await;
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.writes.clock.now()
    }

    async fn look(&mut self) {
        let nodes = self.nodes.list("");
        self.register(&nodes).await;
        if self.leases.revision() < self.behind {
            tracing::debug!(controller = NAME, "leases are behind: nobody is called silent");
            return;
        }
        let mut seen: Vec<Seen> = nodes.into_iter().map(|node| self.see(node)).collect();
        self.silence(&mut seen).await;
        self.follow_up(&seen).await;
        self.weigh(&seen).await;
    }

    /// Takes note of nodes that came and went.
    async fn register(&mut self, nodes: &[Arc<Object>]) {
        let is_known =
            |known: &HashMap<Str, Str>, node: &Object| known.get(&node.key.name) == Some(&node.uid);
        let came: Vec<_> = nodes.iter().filter(|node| !is_known(&self.known, node)).collect();
        if self.known.len() + came.len() != nodes.len() {
            self.forget_all_but(nodes);
        }
        for node in came {
            let (name, uid) = (&node.key.name, &node.uid);
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.writes.recorder.record(nodes::event(name, uid, "RegisteredNode", message));
            self.known.insert(name.clone(), uid.clone());
            self.let_off(node).await;
        }
    }

    fn forget_all_but(&mut self, nodes: &[Arc<Object>]) {
        let there: HashMap<&Str, &Str> = nodes.iter().map(|node| (&node.key.name, &node.uid)).collect();
        let gone: Vec<_> = self.known.extract_if(|name, uid| there.get(name) != Some(&&*uid)).collect();
        for (name, uid) in gone {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.writes.recorder.record(nodes::event(&name, &uid, "RemovingNode", message));
            self.healths.remove(&name);
            self.unfinished.remove(&name);
            self.zones.unmark(&name);
        }
    }

    /// Looks for a node's signs of life.
    fn see(&mut self, node: Arc<Object>) -> Seen {
        let view = node.view::<NodeView>();
        let name = &node.key.name;
        let lease = self.leases.get(&Key::new(LEASES, name.clone())).map(|lease| *lease.view::<LeaseView>());
        let health = Health::next(self.healths.remove(name), &view, lease, self.now());
        self.healths.insert(name.clone(), health);
        let after = view.ready.as_ref().map(|ready| ready.status);
        Seen { before: after.unwrap_or_default(), after, node, view }
    }

    /// Says of nodes that are silent that they are, unless that was said before.
    async fn silence(&mut self, seen: &mut Vec<Seen>) {
        let now = self.now();
        let (healths, options, writes) = (&self.healths, &self.options, &self.writes);
        let health = |seen: &Seen| healths.get(&seen.node.key.name);
        let is_silent = |seen: &Seen| health(seen).is_some_and(|health| health.is_silent(options, now));
        let untold = |seen: &Seen| seen.after != Some(Status::Unknown) && is_silent(seen);
        let silent = (0..seen.len()).filter(|at| untold(&seen[*at]));
        let telling = silent.map(|at| {
            let Seen { node, view, .. } = &seen[at];
            let lease = health(&seen[at]).and_then(|health| health.lease);
            async move { (at, writes.silence(node, view, lease).await) }
        });
        let told = a_few_at_a_time(telling.collect()).await;
        // Of nodes that may or may not be silent nothing follows.
        let mut unclear = HashSet::new();
        for (at, told) in told {
            let node = seen[at].node.key.name.clone();
            match told {
                Ok(()) => {
                    seen[at].after = Some(Status::Unknown);
                    continue;
                }
                Err(NotSilent::Heard) => {}
                Err(NotSilent::Behind(version)) => self.behind = self.behind.max(version),
                Err(NotSilent::Failed(error)) => {
                    tracing::warn!(controller = NAME, %node, %error, "request failed");
                }
            }
            unclear.insert(node);
        }
        seen.retain(|seen| !unclear.contains(&seen.node.key.name));
    }

    /// Gives up nodes that are down, lets off those that are up, and tells their pods.
    async fn follow_up(&mut self, seen: &[Seen]) {
        let now = self.now();
        let mut swapped = Vec::new();
        let mut down = Vec::new();
        for seen in seen {
            let Some(status) = seen.after else { continue };
            let (name, taints) = (&seen.node.key.name, &seen.view.taints);
            let wanted = wanted(status);
            if wanted.is_none() {
                self.zones.unmark(name);
            }
            let has = |key: &str| taints::has(taints, key, taints::NO_EXECUTE);
            match wanted {
                // One that is given up already is only told apart.
                Some(wanted) if has(other(wanted)) => swapped.push((seen, Some(wanted))),
                Some(wanted) => self.zones.mark(&seen.view.zone, name, has(wanted), now),
                None if writes::is_given_up(taints) => swapped.push((seen, None)),
                None => {}
            }
            let went_down = seen.before == Status::True && status != Status::True;
            if went_down {
                let event = nodes::status_event(nodes::COMPONENT, name, &seen.node.uid, "NodeNotReady");
                self.writes.recorder.record(event);
            }
            if went_down || (seen.before != Status::True && self.unfinished.contains(name)) {
                down.push(seen);
            } else {
                self.unfinished.remove(name);
            }
        }
        let writes = &self.writes;
        let swapping = swapped.into_iter().map(|(seen, wanted): (&Seen, _)| async move {
            report(&seen.node, writes.swap(&seen.node, &writes::no_execute(wanted)).await);
        });
        a_few_at_a_time(swapping.collect()).await;
        self.tell_pods(down).await;
    }

    /// Says that the pods of nodes that went down are not ready.
    async fn tell_pods(&mut self, down: Vec<&Seen>) {
        let (writes, caches) = (&self.writes, &self.caches);
        let telling = down.into_iter().map(|seen| async move {
            (seen, writes.mark_not_ready(&caches.by(&nodes::PODS, &seen.node.key)).await)
        });
        for (seen, told) in a_few_at_a_time(telling.collect()).await {
            let name = &seen.node.key.name;
            if told.is_err() {
                self.unfinished.insert(name.clone());
            } else {
                self.unfinished.remove(name);
            }
            report(&seen.node, told);
        }
    }

    /// Looks at whole zones.
    async fn weigh(&mut self, seen: &[Seen]) {
        let mut tallies: HashMap<Str, Tally> = HashMap::new();
        for seen in seen.iter().filter(|seen| !seen.node.labels.contains_key(EXCLUDED)) {
            if !tallies.contains_key(&seen.view.zone) {
                tallies.insert(seen.view.zone.clone(), Tally::default());
            }
            let Some(tally) = tallies.get_mut(&seen.view.zone) else { continue };
            match seen.after {
                Some(Status::True) => tally.up += 1,
                _ => tally.down += 1,
            }
        }
        let now = self.now();
        match self.zones.weigh(&tallies, now) {
            Shift::None => {}
            Shift::AllDown => {
                tracing::info!(controller = NAME, "no node is ready: none is given up");
                for seen in seen {
                    self.let_off(&seen.node).await;
                }
            }
            Shift::SomeUp => {
                tracing::info!(controller = NAME, "some nodes are ready again");
                self.healths.values_mut().for_each(|health| health.heard = now);
            }
        }
    }

    /// Takes back that a node was given up.
    async fn let_off(&mut self, node: &Object) {
        self.zones.unmark(&node.key.name);
        if writes::is_given_up(&node.view::<NodeView>().taints) {
            report(node, self.writes.swap(node, &writes::no_execute(None)).await);
        }
    }

    /// Gives up nodes whose turn it is, for as long as there is until the next look.
    async fn give_up_until(&mut self, next_look: Timestamp) {
        self.writes.seen_by(&self.nodes).await;
        loop {
            while let Some((zone, name)) = self.zones.take_due(self.now()) {
                self.give_up(&zone, name).await;
            }
            let next = self.zones.next_due().map_or(next_look, |due| due.min(next_look));
            self.writes.clock.sleep_until(next).await;
            if next == next_look {
                return;
            }
        }
    }

    async fn give_up(&mut self, zone: &Str, name: Str) {
        let Some(node) = self.nodes.get(&Key::new("", name.clone())) else { return };
        let Some(ready) = &node.view::<NodeView>().ready else { return self.zones.put_back(zone, name) };
        let Some(wanted) = wanted(ready.status) else { return };
        let given_up = self.writes.swap(&node, &writes::no_execute(Some(wanted))).await;
        if given_up.is_err() {
            self.zones.put_back(zone, name);
        }
        report(&node, given_up);
    }
}

async fn a_few_at_a_time<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    stream::iter(all).buffer_unordered(AT_A_TIME).collect().await
}

/// The taint that ends the pods of a node in this state.
fn wanted(status: Status) -> Option<&'static str> {
    match status {
        Status::True => None,
        Status::False => Some(taints::NOT_READY),
        Status::Unknown => Some(taints::UNREACHABLE),
    }
}

fn other(taint: &str) -> &'static str {
    if taint == taints::NOT_READY { taints::UNREACHABLE } else { taints::NOT_READY }
}

/// What could not be written is tried again with the next look.
fn report(node: &Object, result: Result<(), Error>) {
    if let Err(error) = result {
        tracing::warn!(controller = NAME, node = %node.key, %error, "request failed");
    }
}
