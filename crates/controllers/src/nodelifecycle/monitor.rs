//! Monitors the health of all nodes once per period: marks unresponsive nodes `Unknown`, their pods not ready, and
//! adds NoExecute taints at the rate that the state of each zone allows.
//!
//! A pass costs one comparison per node: only objects that changed are read, and only differences are written. A
//! cluster without nodes causes no work.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corten_api::Str;
use corten_client::{Cache, Caches, Error, Key, Object, kinds};
use corten_reconcile::Manager;
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;

use super::health::{LeaseView, NodeHealth, after};
use super::node_writer::{self, NodeWriter, NotUpdated};
use super::zones::{Disruption, ReadyCounts, Zones};
use super::{NAME, NodeLifecycleOptions};
use crate::nodes::{self, NodeView, Status};
use crate::taints;

const LEASES: &str = "kube-node-lease";
/// Nodes with this label do not count towards zone disruption.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// The number of nodes that are updated concurrently.
const CONCURRENCY: usize = 8;

pub(super) struct Monitor {
    options: NodeLifecycleOptions,
    writes: NodeWriter,
    nodes: Arc<Cache>,
    leases: Arc<Cache>,
    caches: Caches,
    /// The nodes seen so far, with their uids.
    known_nodes: HashMap<Str, Str>,
    healths: HashMap<Str, NodeHealth>,
    zones: Zones,
    /// Nodes with pods that could not be marked not ready.
    nodes_to_retry: HashSet<Str>,
    /// Node health is not judged before the lease cache has reached this revision.
    required_lease_revision: u64,
}

/// A node in one monitoring pass.
struct Observation {
    node: Arc<Object>,
    view: Arc<NodeView>,
    /// The Ready status before this pass, and after it if there is one.
    observed: Status,
    current: Option<Status>,
}

impl Monitor {
    pub(super) fn new(manager: &Manager, options: NodeLifecycleOptions) -> Monitor {
        let caches = manager.caches();
        caches.index(&nodes::PODS);
        Monitor {
            zones: Zones::new(options.rates.clone()),
            options,
            writes: NodeWriter::new(manager),
            nodes: caches.of(&kinds::NODES),
            leases: caches.of(&kinds::LEASES),
            caches: caches.clone(),
            known_nodes: HashMap::new(),
            healths: HashMap::new(),
            nodes_to_retry: HashSet::new(),
            required_lease_revision: 0,
        }
    }

    pub(super) async fn run(mut self) {
        for cache in [&self.nodes, &self.leases, &self.caches.of(&kinds::PODS)] {
            cache.synced().await;
        }
        let mut changes = self.nodes.changes();
        loop {
            changes.skip();
            self.monitor_node_health().await;
            if self.known_nodes.is_empty() {
                changes.next().await;
            } else {
                self.no_execute_tainting_pass(after(self.now(), self.options.monitor_period)).await;
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.writes.clock.now()
    }

    async fn monitor_node_health(&mut self) {
        let nodes = self.nodes.list("");
        self.classify_nodes(&nodes).await;
        if self.leases.revision() < self.required_lease_revision {
            tracing::debug!(controller = NAME, "lease cache is stale; skipping node health check");
            return;
        }
        let mut seen: Vec<Observation> =
            nodes.into_iter().map(|node| self.update_node_health(node)).collect();
        self.mark_unresponsive_nodes(&mut seen).await;
        self.process_taint_base_eviction(&seen).await;
        self.handle_disruption(&seen).await;
    }

    /// Registers added nodes and removes deleted ones.
    async fn classify_nodes(&mut self, nodes: &[Arc<Object>]) {
        let is_known = |known_nodes: &HashMap<Str, Str>, node: &Object| {
            known_nodes.get(&node.key.name) == Some(&node.uid)
        };
        let added: Vec<_> = nodes.iter().filter(|node| !is_known(&self.known_nodes, node)).collect();
        if self.known_nodes.len() + added.len() != nodes.len() {
            self.remove_deleted_nodes(nodes);
        }
        for node in added {
            let (name, uid) = (&node.key.name, &node.uid);
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.writes.recorder.record(nodes::event(name, uid, "RegisteredNode", message));
            self.known_nodes.insert(name.clone(), uid.clone());
            self.mark_node_as_reachable(node).await;
        }
    }

    fn remove_deleted_nodes(&mut self, nodes: &[Arc<Object>]) {
        let there: HashMap<&Str, &Str> = nodes.iter().map(|node| (&node.key.name, &node.uid)).collect();
        let gone: Vec<_> = self.known_nodes.extract_if(|name, uid| there.get(name) != Some(&&*uid)).collect();
        for (name, uid) in gone {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.writes.recorder.record(nodes::event(&name, &uid, "RemovingNode", message));
            self.healths.remove(&name);
            self.nodes_to_retry.remove(&name);
            self.zones.remove(&name);
        }
    }

    /// Updates the health record of a node from its status and its lease.
    fn update_node_health(&mut self, node: Arc<Object>) -> Observation {
        let view = node.view::<NodeView>();
        let name = &node.key.name;
        let lease = self.leases.get(&Key::new(LEASES, name.clone())).map(|lease| *lease.view::<LeaseView>());
        let health = NodeHealth::next(self.healths.remove(name), &view, lease, self.now());
        self.healths.insert(name.clone(), health);
        let current = view.ready.as_ref().map(|ready| ready.status);
        Observation { observed: current.unwrap_or_default(), current, node, view }
    }

    /// Sets the conditions of unresponsive nodes to `Unknown`, unless they are already.
    async fn mark_unresponsive_nodes(&mut self, seen: &mut Vec<Observation>) {
        let now = self.now();
        let (healths, options, writes) = (&self.healths, &self.options, &self.writes);
        let health = |seen: &Observation| healths.get(&seen.node.key.name);
        let is_unresponsive =
            |seen: &Observation| health(seen).is_some_and(|health| health.grace_period_expired(options, now));
        let outdated = |seen: &Observation| seen.current != Some(Status::Unknown) && is_unresponsive(seen);
        let unresponsive = (0..seen.len()).filter(|at| outdated(&seen[*at]));
        let writing = unresponsive.map(|at| {
            let Observation { node, view, .. } = &seen[at];
            let lease = health(&seen[at]).and_then(|health| health.lease);
            async move { (at, writes.mark_unknown(node, view, lease).await) }
        });
        let written = run_concurrently(writing.collect()).await;
        // Nodes whose health is uncertain are left alone in this pass.
        let mut unclear = HashSet::new();
        for (at, written) in written {
            let node = seen[at].node.key.name.clone();
            match written {
                Ok(()) => {
                    tracing::warn!(controller = NAME, %node, "node stopped posting status; set its conditions to Unknown");
                    seen[at].current = Some(Status::Unknown);
                    continue;
                }
                Err(NotUpdated::Reported) => {}
                Err(NotUpdated::LeaseRenewed(version)) => {
                    self.required_lease_revision = self.required_lease_revision.max(version)
                }
                Err(NotUpdated::Failed(error)) => {
                    tracing::warn!(controller = NAME, %node, err = %error, "cannot update node status; retrying");
                }
            }
            unclear.insert(node);
        }
        seen.retain(|seen| !unclear.contains(&seen.node.key.name));
    }

    /// Queues nodes that are not ready for NoExecute taints, removes the taints of ready nodes, and marks the pods of
    /// nodes that became not ready as not ready.
    async fn process_taint_base_eviction(&mut self, seen: &[Observation]) {
        let now = self.now();
        let mut swapped = Vec::new();
        let mut down = Vec::new();
        for seen in seen {
            let Some(status) = seen.current else { continue };
            let (name, taints) = (&seen.node.key.name, &seen.view.taints);
            let wanted = no_execute_taint_for(status);
            if wanted.is_none() {
                self.zones.remove(name);
            }
            let has = |key: &str| taints::has(taints, key, taints::NO_EXECUTE);
            match wanted {
                // A tainted node whose status changed swaps its taint at once, without the rate limit.
                Some(wanted) if has(opposite(wanted)) => swapped.push((seen, Some(wanted))),
                Some(wanted) => self.zones.add(&seen.view.zone, name, has(wanted), now),
                None if node_writer::has_no_execute_taint(taints) => swapped.push((seen, None)),
                None => {}
            }
            let went_down = seen.observed == Status::True && status != Status::True;
            if went_down {
                tracing::info!(controller = NAME, node = %name, "node became not ready; marking its pods not ready");
                let event = nodes::status_event(nodes::COMPONENT, name, &seen.node.uid, "NodeNotReady");
                self.writes.recorder.record(event);
            }
            if went_down || (seen.observed != Status::True && self.nodes_to_retry.contains(name)) {
                down.push(seen);
            } else {
                self.nodes_to_retry.remove(name);
            }
        }
        let writes = &self.writes;
        let swapping = swapped.into_iter().map(|(seen, wanted): (&Observation, _)| async move {
            let swapped = writes.swap_taints(&seen.node, &node_writer::no_execute_swap(wanted)).await;
            if swapped.is_ok() {
                log_swap(&seen.node, wanted);
            }
            log_failure(&seen.node, swapped);
        });
        run_concurrently(swapping.collect()).await;
        self.mark_pods_not_ready(down).await;
    }

    /// Marks the pods of nodes that are not ready as not ready.
    async fn mark_pods_not_ready(&mut self, down: Vec<&Observation>) {
        let (writes, caches) = (&self.writes, &self.caches);
        let writing = down.into_iter().map(|seen| async move {
            (seen, writes.mark_pods_not_ready(&caches.by(&nodes::PODS, &seen.node.key)).await)
        });
        for (seen, written) in run_concurrently(writing.collect()).await {
            let name = &seen.node.key.name;
            if written.is_err() {
                self.nodes_to_retry.insert(name.clone());
            } else {
                self.nodes_to_retry.remove(name);
            }
            log_failure(&seen.node, written);
        }
    }

    /// Updates the disruption state of the zones. All zones fully disrupted suspends NoExecute tainting.
    async fn handle_disruption(&mut self, seen: &[Observation]) {
        let mut counts: HashMap<Str, ReadyCounts> = HashMap::new();
        for seen in seen.iter().filter(|seen| !seen.node.labels.contains_key(EXCLUDED)) {
            if !counts.contains_key(&seen.view.zone) {
                counts.insert(seen.view.zone.clone(), ReadyCounts::default());
            }
            let Some(count) = counts.get_mut(&seen.view.zone) else { continue };
            match seen.current {
                Some(Status::True) => count.ready += 1,
                _ => count.not_ready += 1,
            }
        }
        let now = self.now();
        match self.zones.update_states(&counts, now) {
            Disruption::Unchanged => {}
            Disruption::AllZones => {
                tracing::info!(controller = NAME, "all zones fully disrupted; NoExecute tainting suspended");
                for seen in seen {
                    self.mark_node_as_reachable(&seen.node).await;
                }
            }
            Disruption::Recovered => {
                tracing::info!(
                    controller = NAME,
                    "zones no longer fully disrupted; NoExecute tainting resumed"
                );
                self.healths.values_mut().for_each(|health| health.probe_time = now);
            }
        }
    }

    /// Removes the NoExecute taints of a node and its place in the tainting queue.
    async fn mark_node_as_reachable(&mut self, node: &Object) {
        self.zones.remove(&node.key.name);
        if node_writer::has_no_execute_taint(&node.view::<NodeView>().taints) {
            log_failure(node, self.writes.swap_taints(node, &node_writer::no_execute_swap(None)).await);
        }
    }

    /// Adds NoExecute taints to queued nodes, as the rate limits allow, until the next health check.
    async fn no_execute_tainting_pass(&mut self, next_check: Timestamp) {
        self.writes.wait_for_cache(&self.nodes).await;
        loop {
            while let Some((zone, name)) = self.zones.take_due(self.now()) {
                self.taint_node(&zone, name).await;
            }
            let next = self.zones.next_due().map_or(next_check, |due| due.min(next_check));
            self.writes.clock.sleep_until(next).await;
            if next == next_check {
                return;
            }
        }
    }

    async fn taint_node(&mut self, zone: &Str, name: Str) {
        let Some(node) = self.nodes.get(&Key::new("", name.clone())) else { return };
        let Some(ready) = &node.view::<NodeView>().ready else { return self.zones.requeue(zone, name) };
        let Some(wanted) = no_execute_taint_for(ready.status) else { return };
        let tainted = self.writes.swap_taints(&node, &node_writer::no_execute_swap(Some(wanted))).await;
        match &tainted {
            Ok(()) => {
                tracing::info!(controller = NAME, node = %name, taint = wanted, "added NoExecute taint")
            }
            Err(_) => self.zones.requeue(zone, name),
        }
        log_failure(&node, tainted);
    }
}

async fn run_concurrently<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    stream::iter(all).buffer_unordered(CONCURRENCY).collect().await
}

/// The NoExecute taint of a node with this Ready status.
fn no_execute_taint_for(status: Status) -> Option<&'static str> {
    match status {
        Status::True => None,
        Status::False => Some(taints::NOT_READY),
        Status::Unknown => Some(taints::UNREACHABLE),
    }
}

fn opposite(taint: &str) -> &'static str {
    if taint == taints::NOT_READY { taints::UNREACHABLE } else { taints::NOT_READY }
}

/// Logs a changed NoExecute taint, or that the node is ready and has none any more.
fn log_swap(node: &Object, taint: Option<&str>) {
    let node = &node.key.name;
    match taint {
        Some(taint) => tracing::info!(controller = NAME, %node, taint, "replaced NoExecute taint"),
        None => tracing::info!(controller = NAME, %node, "node is ready again; removed its NoExecute taint"),
    }
}

/// Logs a failed write. The next pass retries it.
fn log_failure(node: &Object, result: Result<(), Error>) {
    if let Err(error) = result {
        tracing::warn!(controller = NAME, node = %node.key, err = %error, "cannot update node taints or pods; retrying");
    }
}
