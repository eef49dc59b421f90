//! Syncs the pods of simulated nodes: each change is followed by the next status that a kubelet would report.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_base::Clock;
use corten_client::{Cache, Change, DeleteOptions, Error, Key, Object, Patch, kinds};
use corten_reconcile::{Manager, Queue};

use crate::lifecycle::{self, Addresses, Next};
use crate::nodes::{self, Node};
use crate::placements::Placements;

const WORKERS: usize = 4;

struct PodWorkers {
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    queue: Arc<Queue>,
    clock: Clock,
    simulated: HashMap<Str, usize>,
    list: Arc<[Node]>,
    placements: Arc<Placements>,
}

pub(crate) fn start(manager: &Manager, list: Arc<[Node]>, placements: Arc<Placements>) {
    let workers = Arc::new(PodWorkers {
        pods: manager.caches().of(&kinds::PODS),
        nodes: manager.caches().of(&kinds::NODES),
        queue: manager.queue("simulated-nodes"),
        clock: manager.clock().clone(),
        simulated: list.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect(),
        list,
        placements,
    });
    let queue = workers.queue.clone();
    workers.pods.subscribe(move |change| queue.add(change.object().key.clone()));
    let follower = Arc::downgrade(&workers);
    workers.nodes.subscribe(move |change| {
        let Some(workers) = follower.upgrade() else { return };
        workers.node_changed(change);
    });
    for _ in 0..WORKERS {
        manager.spawn(workers.clone().work());
    }
}

impl PodWorkers {
    async fn work(self: Arc<Self>) {
        self.pods.synced().await;
        self.nodes.synced().await;
        loop {
            let key = self.queue.next().await;
            let (failed, again) = match self.sync_pod(&key).await {
                Ok(again) => (false, again),
                // An object that was deleted or changed meanwhile is queued again by its change.
                Err(error) if error.is_not_found() || error.is_conflict() => (false, None),
                Err(error) => {
                    tracing::debug!(pod = %key, err = %error, "pod sync failed; retrying");
                    (true, None)
                }
            };
            self.queue.done(&key, failed, again);
        }
    }

    /// Queues the pods of a node that became able or unable to run pods. Heartbeats queue nothing.
    fn node_changed(&self, change: &Change) {
        let Some(node) = self.simulated(&change.object().key.name) else { return };
        let network = |object: &Arc<Object>| usable_network(node, object);
        if change.old.as_ref().and_then(network) == change.new.as_ref().and_then(network) {
            return;
        }
        for pod in self.pods.list("") {
            self.queue.add(pod.key.clone());
        }
    }

    /// Takes the next step of a pod. Returns the time after which to sync again.
    async fn sync_pod(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(object) = self.pods.get(key) else {
            self.placements.release(key);
            return Ok(None);
        };
        let pod = object.tree();
        if lifecycle::is_finished(&pod) {
            self.placements.release(key);
        }
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        let Some(node) = self.simulated(node) else { return Ok(None) };
        let registered = self.nodes.get(&Key::new("", node.name.clone()));
        let Some(network) = registered.and_then(|object| usable_network(node, &object)) else {
            return Ok(None);
        };
        self.apply_next(key, &pod, node, network).await
    }

    fn simulated(&self, name: &str) -> Option<&Node> {
        self.simulated.get(name).map(|at| &self.list[*at])
    }

    async fn apply_next(
        &self,
        key: &Key,
        pod: &Value,
        node: &Node,
        network: Ipv4Addr,
    ) -> Result<Option<Duration>, Error> {
        let known = pod.str_at(&["status", "podIP"]).and_then(|ip| ip.parse().ok());
        let address = match (lifecycle::is_finished(pod), known) {
            (true, known) => known.unwrap_or(network),
            (false, known) => self.placements.place(key, &node.name, network, known),
        };
        let addresses = Addresses { host: node.address, pod: address };
        match lifecycle::next(pod, addresses, self.clock.now()) {
            Next::Nothing => Ok(None),
            Next::Later(delay) => Ok(Some(delay)),
            Next::Status(status) => {
                node.client.patch(&kinds::PODS, key, &Patch::Strategic(status), "status").await?;
                Ok(None)
            }
            Next::Delete => {
                let uid = Some(meta::uid(pod).into());
                let options = DeleteOptions { grace_seconds: Some(0), uid, ..DeleteOptions::default() };
                node.client.delete(&kinds::PODS, key, &options).await?;
                Ok(None)
            }
        }
    }
}

/// The network of a node that can run pods: its heartbeats are not stopped and it has a pod CIDR.
fn usable_network(node: &Node, object: &Object) -> Option<Ipv4Addr> {
    object.with_tree(|tree| if nodes::is_unplugged(tree) { None } else { node.network(tree) })
}
