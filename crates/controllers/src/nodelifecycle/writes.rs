//! What is written about nodes and their pods, each write against the version it was decided on.

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
/// How often a write is tried that meets another one, and how long to wait in between.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Writes {
    client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The newest version of a node that was written.
    newest: AtomicU64,
}

/// Why a node was not said to be silent.
#[derive(Debug)]
pub(super) enum NotSilent {
    /// It has just been heard of.
    Heard,
    /// Its lease was renewed, and our cache has not seen this version yet.
    Behind(u64),
    Failed(Error),
}

impl Writes {
    pub(super) fn new(manager: &Manager) -> Writes {
        Writes {
            client: manager.client_for(nodes::ACCOUNT),
            clock: manager.clock().clone(),
            recorder: manager.recorder().clone(),
            newest: AtomicU64::new(0),
        }
    }

    fn wrote(&self, node: &Value) {
        let version = meta::resource_version(node).parse().unwrap_or(0);
        self.newest.fetch_max(version, Ordering::Relaxed);
    }

    /// Waits until the cache shows what was written.
    pub(super) async fn seen_by(&self, nodes: &Cache) {
        nodes::seen(nodes, self.newest.load(Ordering::Relaxed), &self.clock).await;
    }

    /// Says that a node is silent, after making sure that it is.
    pub(super) async fn silence(
        &self,
        node: &Object,
        seen: &NodeView,
        lease: Option<LeaseView>,
    ) -> Result<(), NotSilent> {
        self.ask_for_lease(&node.key, lease).await?;
        let mut tree = node.tree();
        for tried in 1.. {
            health::silence(&mut tree, self.clock.now());
            let error = match self.client.update(&kinds::NODES, &tree, "status").await {
                Ok(node) => {
                    self.wrote(&node);
                    return Ok(());
                }
                Err(error) => error,
            };
            if tried == TRIES {
                return Err(NotSilent::Failed(error));
            }
            self.clock.sleep(PAUSE).await;
            tree = self.client.get(&kinds::NODES, &node.key).await.map_err(NotSilent::Failed)?;
            if health::has_reported_since(&tree, seen) {
                break;
            }
        }
        Err(NotSilent::Heard)
    }

    /// A cache may be behind; the server is not.
    async fn ask_for_lease(&self, node: &Key, known: Option<LeaseView>) -> Result<(), NotSilent> {
        let key = Key::new(LEASES, node.name.clone());
        match self.client.get(&kinds::LEASES, &key).await {
            Ok(lease) if known.is_none_or(|known| known.renewed < LeaseView::of(&lease).renewed) => {
                Err(NotSilent::Behind(meta::resource_version(&lease).parse().unwrap_or(0)))
            }
            Err(error) if !error.is_not_found() => Err(NotSilent::Failed(error)),
            _ => Ok(()),
        }
    }

    /// Changes a node's taints, if there is anything to change.
    pub(super) async fn swap(&self, node: &Object, swap: &Swap<'_>) -> Result<(), Error> {
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
                    self.wrote(&node);
                    break;
                }
            }
            self.clock.sleep(PAUSE).await;
            let node = self.client.get(&kinds::NODES, &node.key).await?;
            known = (meta::resource_version(&node).to_owned(), node.items_at(&["spec", "taints"]).to_vec());
        }
        Ok(())
    }

    /// Says that the pods of a node are not ready; the first failure, if any.
    pub(super) async fn mark_not_ready(&self, pods: &[Arc<Object>]) -> Result<(), Error> {
        let mut result = Ok(());
        for pod in pods.iter().filter(|pod| pod.view::<pods::PodView>().ready) {
            if let Err(error) = self.mark_pod(pod).await {
                result = result.and(Err(error));
            }
        }
        result
    }

    async fn mark_pod(&self, pod: &Object) -> Result<(), Error> {
        let mut tree = pod.tree();
        conditions::fail(&mut tree, "Ready", self.clock.now());
        match self.client.update(&kinds::PODS, &tree, "status").await {
            // What is gone is neither ready nor not.
            Err(error) if error.is_not_found() => return Ok(()),
            result => result?,
        };
        self.recorder.record(Event::warning(COMPONENT, &tree, "NodeNotReady", "Node is not ready"));
        Ok(())
    }
}

/// The taints that end pods: `wanted`, or neither of them.
pub(super) fn no_execute(wanted: Option<&'static str>) -> Swap<'static> {
    let (add, remove) =
        [taints::NOT_READY, taints::UNREACHABLE].into_iter().partition(|key| wanted == Some(*key));
    Swap { effect: taints::NO_EXECUTE, add, remove }
}

/// Whether a node has one of the taints that end pods.
pub(super) fn is_given_up(taints: &[Value]) -> bool {
    [taints::NOT_READY, taints::UNREACHABLE].iter().any(|key| taints::has(taints, key, taints::NO_EXECUTE))
}
