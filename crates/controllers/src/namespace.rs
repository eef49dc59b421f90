//! Namespace: what is in a namespace goes with it.
//!
//! Watches namespaces, and pods for the end of those it waits for. Deletes everything in a namespace that is
//! being deleted, pods first, then releases the namespace; tells in its conditions what keeps it. Never touches
//! a namespace that is not being deleted.

mod progress;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, meta, time};
use corten_base::Clock;
use corten_client::{Client, DeleteOptions, Discovery, Error, Key, Kind, Propagation, Served, kinds};
use corten_reconcile::{Manager, Queue};

use crate::namespaces;
use progress::Progress;

const NAME: &str = "namespace-controller";
/// What this controller holds a namespace by.
const FINALIZER: &str = "kubernetes";
const WORKERS: usize = 10;

/// Starts the controller.
pub(crate) fn start(manager: &Manager) {
    if !manager.is_selected(NAME) {
        return;
    }
    let queue = manager.queue(NAME);
    let going = queue.clone();
    manager.caches().of(&kinds::NAMESPACES).subscribe(move |change| {
        if let Some(namespace) = change.new.as_ref().filter(|namespace| namespace.deleting) {
            going.add(namespace.key.clone());
        }
    });
    let (caches, waiting) = (manager.caches().clone(), queue.clone());
    manager.caches().of(&kinds::PODS).subscribe(move |change| {
        let key = Key::new("", change.object().key.namespace.clone());
        if change.new.is_none()
            && caches.of(&kinds::NAMESPACES).get(&key).is_some_and(|namespace| namespace.deleting)
        {
            waiting.add(key);
        }
    });
    for _ in 0..WORKERS {
        let (client, clock) = (manager.client_for(NAME), manager.clock().clone());
        manager.spawn(Worker { client, clock, queue: queue.clone() }.run());
    }
}

struct Worker {
    client: Client,
    clock: Clock,
    queue: Arc<Queue>,
}

/// What became of one attempt.
enum Attempt {
    Finished,
    /// Some content takes so many seconds.
    Waiting(i64),
    Failed,
}

impl Worker {
    async fn run(self) {
        loop {
            let key = self.queue.next().await;
            let (failed, again_after) = match self.sync(&key).await {
                Ok(Attempt::Finished) => (false, None),
                Ok(Attempt::Waiting(seconds)) => {
                    (false, Some(Duration::from_secs(seconds.unsigned_abs() / 2 + 1)))
                }
                Ok(Attempt::Failed) => (true, None),
                Err(error) => {
                    if !error.is_conflict() {
                        tracing::warn!(controller = NAME, %key, %error, "request failed");
                    }
                    (true, None)
                }
            };
            self.queue.done(&key, failed, again_after);
        }
    }

    /// Takes a namespace that is being deleted as far towards its end as it can go now.
    async fn sync(&self, key: &Key) -> Result<Attempt, Error> {
        // As it is now: finalizing on an old state would be refused.
        let mut namespace = match self.client.get(&kinds::NAMESPACES, key).await {
            Err(error) if error.is_not_found() => return Ok(Attempt::Finished),
            namespace => namespace?,
        };
        if !meta::is_deleting(&namespace) || namespace.items_at(&["spec", "finalizers"]).is_empty() {
            return Ok(Attempt::Finished);
        }
        if namespaces::phase(&namespace) != "Terminating" {
            namespace.set(&["status", "phase"], "Terminating");
            namespace = self.client.update(&kinds::NAMESPACES, &namespace, "status").await?;
        }
        let discovered = self.client.discover().await?;
        let progress = self.delete_content(&namespace, &discovered).await;
        if progress.tell(&mut namespace, self.clock.now()) {
            namespace = self.client.update(&kinds::NAMESPACES, &namespace, "status").await?;
        }
        if progress.has_failures() {
            return Ok(Attempt::Failed);
        }
        if progress.estimate > 0 {
            return Ok(Attempt::Waiting(progress.estimate));
        }
        match self.client.update(&kinds::NAMESPACES, &finalized(&namespace), "finalize").await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Attempt::Finished),
        }
    }

    /// Deletes all there is. Pods go first, so that what they use is there until they end.
    async fn delete_content(&self, namespace: &Value, discovered: &Discovery) -> Progress {
        let mut progress = Progress::new(discovered);
        let name = meta::name(namespace);
        let deletable = |served: &&Served| served.kind.namespaced && served.has_verbs(&["delete"]);
        let (pods, others): (Vec<_>, Vec<_>) =
            discovered.preferred().filter(deletable).partition(|served| served.kind == kinds::PODS);
        for served in pods {
            let left = match self.grace_of_pods(namespace).await {
                Ok(grace) => self.delete_all(name, served).await.map(|left| (left, grace)),
                Err(error) => Err(error),
            };
            match left {
                Ok((left, grace)) => {
                    progress.left(name, &served.kind, &left, grace);
                    if !left.is_empty() {
                        progress.forget_content();
                        return progress;
                    }
                }
                Err(error) => progress.failed(error.to_string()),
            }
        }
        for served in others {
            match self.delete_all(name, served).await {
                Ok(left) => progress.left(name, &served.kind, &left, 0),
                Err(error) => progress.failed(error.to_string()),
            }
        }
        progress
    }

    async fn grace_of_pods(&self, namespace: &Value) -> Result<i64, Error> {
        let pods = self.client.list(&kinds::PODS, meta::name(namespace)).await?;
        let since = namespace.str_at(&["metadata", "deletionTimestamp"]).and_then(|at| time::parse(at).ok());
        let elapsed = since.map_or(0, |since| self.clock.now().duration_since(since).as_secs());
        Ok(progress::grace_of_pods(pods.items_at(&["items"]), elapsed))
    }

    /// Deletes all of a kind; what is left of it.
    async fn delete_all(&self, namespace: &str, served: &Served) -> Result<Vec<Value>, Error> {
        let kind = &served.kind;
        if served.has_verbs(&["deletecollection"]) {
            self.client.delete_collection(kind, namespace).await.map(drop).or_else(unless_not_served)?;
        } else if served.has_verbs(&["list"]) {
            for object in self.list(kind, namespace).await? {
                let options =
                    DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
                let deleted = self.client.delete(kind, &Key::of(&object), &options).await;
                deleted.map(drop).or_else(unless_not_served)?;
            }
        }
        if served.has_verbs(&["list"]) { self.list(kind, namespace).await } else { Ok(Vec::new()) }
    }

    async fn list(&self, kind: &Kind, namespace: &str) -> Result<Vec<Value>, Error> {
        match self.client.list(kind, namespace).await {
            Ok(list) => Ok(list.items_at(&["items"]).to_vec()),
            Err(error) => unless_not_served(error).map(|()| Vec::new()),
        }
    }
}

/// Discovery may promise what a server does not serve, and what is gone is gone.
fn unless_not_served(error: Error) -> Result<(), Error> {
    if error.is_not_found() || error.code() == 405 { Ok(()) } else { Err(error) }
}

/// The namespace without this controller's hold on it.
fn finalized(namespace: &Value) -> Value {
    let mut others: Vec<_> = namespace
        .items_at(&["spec", "finalizers"])
        .iter()
        .filter(|finalizer| finalizer.as_str() != Some(FINALIZER))
        .cloned()
        .collect();
    others.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    let mut namespace = namespace.clone();
    namespace.set(&["spec", "finalizers"], others);
    namespace
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    #[test]
    fn only_its_own_finalizer_is_removed() {
        let namespace = value!({ "spec": { "finalizers": ["z.example/z", "kubernetes", "a.example/a"] } });
        assert_eq!(
            finalized(&namespace),
            value!({ "spec": { "finalizers": ["a.example/a", "z.example/z"] } })
        );
    }
}
