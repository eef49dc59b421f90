//! Follows the API and has its policies enforced: the one place where time passes.

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
/// How long a pod waits at most for the rules that isolate it. Beyond that something is wrong with the kernel or with a policy: the
/// pod does not start, and is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rules that isolate a pod are not in the kernel.
#[derive(Debug, thiserror::Error)]
#[error("the network policies of the pod are not enforced yet")]
pub struct NotEnforced;

/// Takes in a change; whether it means anything.
type Take = fn(&mut Inputs, &Change) -> bool;

/// Running enforcement of one node.
pub struct Policies {
    node: String,
    clock: Clock,
    state: Mutex<State>,
    wake: Notify,
    /// The last request that is enforced.
    enforced: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    inputs: Inputs,
    /// The last request to enforce what is so.
    asked: u64,
}

impl Policies {
    /// Tells of a pod of this node that was given its addresses, and waits until what isolates it is enforced: to be
    /// called before anything runs in it, which must not happen if it is not.
    pub async fn attached(
        &self,
        namespace: &str,
        name: &str,
        labels: Map,
        addresses: &[IpAddr],
    ) -> Result<(), NotEnforced> {
        let key = Key::new(namespace, name);
        let asked = {
            let mut state = self.state.lock();
            if !state.inputs.attached(&key, labels, &self.node, addresses) {
                return Ok(());
            }
            state.asked += 1;
            state.asked
        };
        self.wake.notify_one();
        let mut enforced = self.enforced.subscribe();
        let done = enforced.wait_for(|enforced| *enforced >= asked);
        self.clock.timeout(PATIENCE, done).await.map(drop).ok_or(NotEnforced)
    }

    /// Tells of a pod of this node that has given its addresses back.
    pub fn detached(&self, namespace: &str, name: &str) {
        self.state.lock().inputs.detached(&Key::new(namespace, name));
    }

    fn take(&self, change: &Change, take: Take) {
        let mut state = self.state.lock();
        if take(&mut state.inputs, change) {
            state.asked += 1;
            drop(state);
            self.wake.notify_one();
        }
    }

    async fn run(&self, mut enforcer: Enforcer) {
        let mut failures = 0;
        loop {
            let (asked, wanted) = {
                let state = self.state.lock();
                (state.asked, enforcer.wanted(&state.inputs))
            };
            let done = tokio::task::spawn_blocking(move || {
                let outcome = enforcer.enforce(wanted);
                (enforcer, outcome)
            });
            let Ok((back, outcome)) = done.await else {
                tracing::error!("network policies are no longer kept up");
                return;
            };
            enforcer = back;
            match outcome {
                Ok(()) => {
                    failures = 0;
                    self.enforced.send_replace(asked);
                    self.wake.notified().await;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "network policies could not be enforced");
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
    let followed: [(_, Take); 3] = [
        (manager.caches().of(&kinds::NETWORK_POLICIES), Inputs::policy),
        (manager.caches().of(&kinds::NAMESPACES), Inputs::namespace),
        (manager.caches().of(&kinds::PODS), Inputs::pod),
    ];
    let mut synced = Vec::new();
    for (cache, take) in followed {
        let policies = policies.clone();
        cache.subscribe(move |change| policies.take(change, take));
        synced.push(cache);
    }
    let running = policies.clone();
    manager.spawn(async move {
        // Rules that an earlier process left are better than rules for half of the pods.
        for cache in synced {
            cache.synced().await;
        }
        running.run(enforcer).await;
    });
    Ok(policies)
}
