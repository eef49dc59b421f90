//! Writes of the node lifecycle controller to nodes and their pods, each against the version it was decided on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corten_api::{Value, meta};
use corten_base::Clock;
use corten_client::{Cache, Client, Error, Key, Object, View, kinds};
use corten_reconcile::{Event, Manager, Recorder};

use super::health::{self, LeaseView};
use crate::nodes::{self, COMPONENT, NodeView};
use crate::taints::{self, Swap};
use crate::{conditions, pods};

const LEASES: &str = "kube-node-lease";
/// The number of attempts of a conflicting write, and the pause between them.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct NodeWriter {
    client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The newest version of a node that this writer has written.
    newest: AtomicU64,
}

/// The reason why a node's conditions were not set to `Unknown`.
#[derive(Debug)]
pub(super) enum NotUpdated {
    /// The node has posted a heartbeat meanwhile.
    Reported,
    /// Its lease was renewed; the lease cache has not reached this revision yet.
    LeaseRenewed(u64),
    Failed(Error),
}

impl NodeWriter {
    pub(super) fn new(manager: &Manager) -> NodeWriter {
        NodeWriter {
            client: manager.client_for(nodes::ACCOUNT),
            clock: manager.clock().clone(),
            recorder: manager.recorder().clone(),
            newest: AtomicU64::new(0),
        }
    }

    fn record_version(&self, node: &Value) {
        let version = meta::resource_version(node).parse().unwrap_or(0);
        self.newest.fetch_max(version, Ordering::Relaxed);
    }

    /// Waits until the cache contains this writer's last write.
    pub(super) async fn wait_for_cache(&self, nodes: &Cache) {
        nodes::seen(nodes, self.newest.load(Ordering::Relaxed), &self.clock).await;
    }

    /// Sets a node's conditions to `Unknown`, after the API server has confirmed that it is unresponsive.
    pub(super) async fn mark_unknown(
        &self,
        node: &Object,
        seen: &NodeView,
        lease: Option<LeaseView>,
    ) -> Result<(), NotUpdated> {
        self.check_lease(&node.key, lease).await?;
        let mut tree = node.tree();
        for tried in 1.. {
            health::mark_unknown(&mut tree, self.clock.now());
            let error = match self.client.update(&kinds::NODES, &tree, "status").await {
                Ok(node) => {
                    self.record_version(&node);
                    return Ok(());
                }
                Err(error) => error,
            };
            if tried == TRIES {
                return Err(NotUpdated::Failed(error));
            }
            self.clock.sleep(PAUSE).await;
            tree = self.client.get(&kinds::NODES, &node.key).await.map_err(NotUpdated::Failed)?;
            if health::has_reported_since(&tree, seen) {
                break;
            }
        }
        Err(NotUpdated::Reported)
    }

    /// Reads the lease from the API server, because the cache may be stale.
    async fn check_lease(&self, node: &Key, known: Option<LeaseView>) -> Result<(), NotUpdated> {
        let key = Key::new(LEASES, node.name.clone());
        match self.client.get(&kinds::LEASES, &key).await {
            Ok(lease) if known.is_none_or(|known| known.renewed < LeaseView::of(&lease).renewed) => {
                Err(NotUpdated::LeaseRenewed(meta::resource_version(&lease).parse().unwrap_or(0)))
            }
            Err(error) if !error.is_not_found() => Err(NotUpdated::Failed(error)),
            _ => Ok(()),
        }
    }

    /// Applies a taint swap to a node, if it changes anything.
    pub(super) async fn swap_taints(&self, node: &Object, swap: &Swap<'_>) -> Result<(), Error> {
        let view = node.view::<NodeView>();
        let mut known = (node.revision.to_string(), view.taints.clone());
        for tried in 1.. {
            let Some(swapped) = swap.apply(&known.1, self.clock.now()) else { break };
            let patch = taints::patch(known.0, swapped);
            match self.client.patch(&kinds::NODES, &node.key, &patch, "").await {
                Err(error) if error.is_conflict() && tried < TRIES => {}
                Err(error) if error.is_not_found() => break,
                Err(error) => return Err(error),
                Ok(node) => {
                    self.record_version(&node);
                    break;
                }
            }
            self.clock.sleep(PAUSE).await;
            let node = self.client.get(&kinds::NODES, &node.key).await?;
            known = (meta::resource_version(&node).to_owned(), node.items_at(&["spec", "taints"]).to_vec());
        }
        Ok(())
    }

    /// Marks pods as not ready. Continues after failures and returns the first.
    pub(super) async fn mark_pods_not_ready(&self, pods: &[Arc<Object>]) -> Result<(), Error> {
        let mut result = Ok(());
        for pod in pods.iter().filter(|pod| pod.view::<pods::PodView>().ready) {
            if let Err(error) = self.mark_pod_not_ready(pod).await {
                result = result.and(Err(error));
            }
        }
        result
    }

    async fn mark_pod_not_ready(&self, pod: &Object) -> Result<(), Error> {
        let mut tree = pod.tree();
        conditions::fail(&mut tree, "Ready", self.clock.now());
        match self.client.update(&kinds::PODS, &tree, "status").await {
            // A deleted pod needs no condition.
            Err(error) if error.is_not_found() => return Ok(()),
            result => result?,
        };
        self.recorder.record(Event::warning(COMPONENT, &tree, "NodeNotReady", "Node is not ready"));
        Ok(())
    }
}

/// The swap that leaves `wanted` as the only NoExecute taint of this controller, or none.
pub(super) fn no_execute_swap(wanted: Option<&'static str>) -> Swap<'static> {
    let (add, remove) =
        [taints::NOT_READY, taints::UNREACHABLE].into_iter().partition(|key| wanted == Some(*key));
    Swap { effect: taints::NO_EXECUTE, add, remove }
}

/// True if a node has a NoExecute taint of this controller.
pub(super) fn has_no_execute_taint(taints: &[Value]) -> bool {
    [taints::NOT_READY, taints::UNREACHABLE].iter().any(|key| taints::has(taints, key, taints::NO_EXECUTE))
}
