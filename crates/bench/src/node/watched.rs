//! Creates and deletes pods, and records when a watch showed each as running and as deleted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use corten_api::Value;
use corten_base::Clock;
use corten_client::{Caches, Client, DeleteOptions, Key, kinds};
use futures_util::future::try_join_all;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// The deadline of each step.
const LIMIT: Duration = Duration::from_secs(120);

/// A change of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodChange {
    Running,
    /// It terminated unexpectedly.
    Terminated,
    Gone,
}

struct Seen {
    key: Key,
    change: PodChange,
    when: Instant,
}

pub(super) struct Watched {
    client: Client,
    caches: Caches,
    seen: UnboundedReceiver<Seen>,
    namespace: &'static str,
}

impl Watched {
    pub(super) fn new(client: Client, namespace: &'static str) -> Watched {
        let caches = Caches::new(client.clone(), Clock::real());
        let (sender, seen) = unbounded_channel();
        caches.of(&kinds::PODS).subscribe(move |change| {
            let when = Instant::now();
            let key = change.object().key.clone();
            let change = match &change.new {
                None => PodChange::Gone,
                Some(pod) => match pod.tree().str_at(&["status", "phase"]) {
                    Some("Running") => PodChange::Running,
                    Some("Succeeded" | "Failed") => PodChange::Terminated,
                    _ => return,
                },
            };
            // The receiver is dropped once the measurement is over.
            let _ = sender.send(Seen { key, change, when });
        });
        Watched { client, caches, seen, namespace }
    }

    /// Waits until a node is ready.
    pub(super) async fn node_ready(&self) -> anyhow::Result<()> {
        let is_ready = |node: &Value| {
            let conditions = node.items_at(&["status", "conditions"]).iter();
            let mut ready = conditions.filter(|condition| condition.str_at(&["type"]) == Some("Ready"));
            ready.any(|condition| condition.str_at(&["status"]) == Some("True"))
        };
        let nodes = self.caches.of(&kinds::NODES);
        let ready = nodes.until(|nodes| nodes.list("").iter().any(|node| is_ready(&node.tree())));
        timeout(LIMIT, ready).await.context("the node did not become ready in time")
    }

    /// Creates pods concurrently; returns when each was running, in their order.
    pub(super) async fn create(&mut self, pods: &[Value]) -> anyhow::Result<Vec<Instant>> {
        try_join_all(pods.iter().map(|pod| self.client.create(&kinds::PODS, pod))).await?;
        self.until(pods, PodChange::Running).await
    }

    /// Deletes pods concurrently; returns when each was gone, in their order.
    pub(super) async fn delete(&mut self, pods: &[Value]) -> anyhow::Result<Vec<Instant>> {
        let options = DeleteOptions::default();
        let delete = |pod: &Value| {
            let key = Key::of(pod);
            let (client, options) = (&self.client, &options);
            async move { client.delete(&kinds::PODS, &key, options).await }
        };
        try_join_all(pods.iter().map(delete)).await?;
        self.until(pods, PodChange::Gone).await
    }

    /// Deletes all pods.
    pub(super) async fn clear(&mut self) -> anyhow::Result<()> {
        self.client.delete_collection(&kinds::PODS, self.namespace).await?;
        let pods = self.caches.of(&kinds::PODS);
        let gone = pods.until(|pods| pods.has_none_in(self.namespace));
        timeout(LIMIT, gone).await.context("some pods were not deleted in time")
    }

    async fn until(&mut self, pods: &[Value], change: PodChange) -> anyhow::Result<Vec<Instant>> {
        let keys: Vec<Key> = pods.iter().map(Key::of).collect();
        let mut times: HashMap<Key, Instant> = HashMap::new();
        let all = async {
            while !keys.iter().all(|key| times.contains_key(key)) {
                let seen = self.seen.recv().await.context("the watch of pods has ended")?;
                if seen.change == PodChange::Terminated && change == PodChange::Running {
                    bail!("pod {} terminated unexpectedly", seen.key);
                }
                if seen.change == change {
                    times.entry(seen.key).or_insert(seen.when);
                }
            }
            Ok(())
        };
        match timeout(LIMIT, all).await {
            Ok(done) => done?,
            Err(_) => {
                let count = keys.iter().filter(|key| times.contains_key(key)).count();
                return Err(anyhow!("only {count} of {} pods were {change:?} in time", keys.len()));
            }
        }
        Ok(keys.iter().filter_map(|key| times.get(key).copied()).collect())
    }
}
