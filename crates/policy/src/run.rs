//! The enforcement loop: subscribes to the API, and enforces policies when they change.
//!
//! *Invariant:* the model is computed on a thread for blocking work, from a snapshot of the inputs, and never under the
//! lock: changes are applied and pods attached while a long policy is computed. A request counts as enforced only once a
//! snapshot that was taken after it is in the kernel.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use corten_api::Map;
use corten_base::{Backoff, Clock};
use corten_client::{Change, Key, kinds};
use corten_net::namespace::Namespace;
use corten_reconcile::Manager;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::enforcer::Enforcer;
use crate::inputs::Inputs;

const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// The time that a pod waits for the rules that isolate it. After it the kernel or a policy has a problem: the pod does not start,
/// and is retried.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The rules that isolate a pod are not in the kernel.
#[derive(Debug, thiserror::Error)]
#[error("the network policies of the pod are not enforced yet")]
pub struct NotEnforced;

/// Applies a change. Returns true if it affects policies.
type Apply = fn(&mut Inputs, &Change) -> bool;

/// Running enforcement of one node.
pub struct Policies {
    node: String,
    clock: Clock,
    state: Mutex<State>,
    wake: Notify,
    /// The number of the last request that is enforced.
    enforced: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Cloned on the first change after a snapshot was taken.
    inputs: Arc<Inputs>,
    /// The number of the last request to enforce the inputs.
    requested: u64,
}

impl Policies {
    /// Adds a pod of this node that got its addresses, and waits until the rules that isolate it are enforced. To be called
    /// before its containers start; they must not start if it fails.
    pub async fn attached(
        &self,
        namespace: &str,
        name: &str,
        labels: Map,
        addresses: &[IpAddr],
    ) -> Result<(), NotEnforced> {
        let key = Key::new(namespace, name);
        let requested = {
            let mut state = self.state.lock();
            if !Arc::make_mut(&mut state.inputs).attached(&key, labels, &self.node, addresses) {
                return Ok(());
            }
            state.requested += 1;
            state.requested
        };
        self.wake.notify_one();
        let mut enforced = self.enforced.subscribe();
        let done = enforced.wait_for(|enforced| *enforced >= requested);
        self.clock.timeout(TIMEOUT, done).await.map(drop).ok_or(NotEnforced)
    }

    /// Removes a pod of this node that has released its addresses.
    pub fn detached(&self, namespace: &str, name: &str) {
        Arc::make_mut(&mut self.state.lock().inputs).detached(&Key::new(namespace, name));
    }

    fn apply(&self, change: &Change, apply: Apply) {
        let mut state = self.state.lock();
        if apply(Arc::make_mut(&mut state.inputs), change) {
            state.requested += 1;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// The inputs, and the last request that they include.
    fn snapshot(&self) -> (u64, Arc<Inputs>) {
        let state = self.state.lock();
        (state.requested, state.inputs.clone())
    }

    async fn run(&self, mut enforcer: Enforcer) {
        let mut failures = 0;
        loop {
            let (requested, inputs) = self.snapshot();
            let done = tokio::task::spawn_blocking(move || {
                let wanted = enforcer.wanted(&inputs);
                drop(inputs);
                let outcome = enforcer.enforce(wanted);
                (enforcer, outcome)
            });
            let Ok((back, outcome)) = done.await else {
                tracing::error!("network policy sync panicked; policies are no longer updated");
                return;
            };
            enforcer = back;
            match outcome {
                Ok(()) => {
                    failures = 0;
                    self.enforced.send_replace(requested);
                    self.wake.notified().await;
                }
                Err(err) => {
                    failures += 1;
                    tracing::warn!(%err, "cannot enforce network policies; retrying");
                    self.clock.sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }
}

/// Enforces the policies of the network namespace that the caller is in. It ends with the manager; the rules stay.
pub fn start(manager: &Manager, node: &str) -> io::Result<Arc<Policies>> {
    let enforcer = Enforcer::open(node, &Namespace::current()?)?;
    let policies = Arc::new(Policies {
        node: node.to_owned(),
        clock: manager.clock().clone(),
        state: Mutex::default(),
        wake: Notify::new(),
        enforced: watch::Sender::new(0),
    });
    let subscribed: [(_, Apply); 3] = [
        (manager.caches().of(&kinds::NETWORK_POLICIES), Inputs::policy),
        (manager.caches().of(&kinds::NAMESPACES), Inputs::namespace),
        (manager.caches().of(&kinds::PODS), Inputs::pod),
    ];
    let mut synced = Vec::new();
    for (cache, apply) in subscribed {
        let policies = policies.clone();
        cache.subscribe(move |change| policies.apply(change, apply));
        synced.push(cache);
    }
    let running = policies.clone();
    manager.spawn(async move {
        // The rules of an earlier process are better than rules for a part of the pods.
        for cache in synced {
            cache.synced().await;
        }
        running.run(enforcer).await;
    });
    Ok(policies)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use corten_api::{Value, value};
    use corten_client::Object;

    use super::*;

    fn change(object: &Value) -> Change {
        Change { old: None, new: Some(Arc::new(Object::of(object))) }
    }

    fn policies() -> Policies {
        Policies {
            node: "node".to_owned(),
            clock: Clock::real(),
            state: Mutex::default(),
            wake: Notify::new(),
            enforced: watch::Sender::new(0),
        }
    }

    /// A model that takes long is computed from a snapshot: changes and pods do not wait for it.
    #[tokio::test]
    async fn changes_are_taken_in_while_a_model_is_computed() {
        let policies = Arc::new(policies());
        let deny = value!({"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": "p", "namespace": "n"}, "spec": {"podSelector": {}}});
        policies.apply(&change(&deny), Inputs::policy);
        let (asked, computing) = policies.snapshot();
        let given: IpAddr = "10.0.0.7".parse().unwrap();
        let attaching = policies.clone();
        let attached =
            tokio::spawn(
                async move { attaching.attached("n", "late", Map::default(), &[given]).await.is_ok() },
            );
        while policies.snapshot().0 == asked {
            tokio::task::yield_now().await;
        }
        let other = policies.clone();
        let taken = thread::spawn(move || {
            other.apply(
                &change(&value!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "node"}})),
                Inputs::pod,
            )
        });
        taken.join().unwrap();
        assert!(computing.pods.is_empty(), "a snapshot does not change");
        // The snapshot without the pod is enforced: that does not count for the pod.
        policies.enforced.send_replace(asked);
        tokio::task::yield_now().await;
        assert!(!attached.is_finished(), "the pod's own isolation is not in the kernel yet");
        let (asked, inputs) = policies.snapshot();
        assert_eq!(inputs.pods.len(), 2);
        policies.enforced.send_replace(asked);
        assert!(attached.await.unwrap());
    }
}
