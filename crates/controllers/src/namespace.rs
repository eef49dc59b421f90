//! Namespace controller: deletes the content of a terminating namespace, then finalizes it.
//!
//! Watches namespaces, and the pods of terminating ones. Deletes everything in them of every kind that API discovery
//! lists: pods first, and nothing else until they are gone. Writes their phase and conditions, and removes the
//! finalizer `kubernetes`. Never touches a namespace that is not terminating.
//!
//! Not a `Controller`: the kinds it deletes are discovered at run time.

mod conditions;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Client, DeleteOptions, Error, Key, Kind, Propagation, Served, kinds};
use corten_reconcile::{Manager, Queue};
use jiff::Timestamp;
use parking_lot::Mutex;

use conditions::Findings;

const NAME: &str = "namespace-controller";
const FINALIZER: &str = "kubernetes";
const WORKERS: usize = 10;
/// The time for writes that were admitted just before the deletion to be committed.
const GRACE: Duration = Duration::from_secs(5);
/// The estimated time that finalizers take, in seconds.
const FINALIZERS_TAKE: i64 = 15;

pub(crate) fn start(manager: &Manager) {
    if !manager.is_selected(NAME) {
        return;
    }
    let queue = manager.queue(NAME);
    let added = queue.clone();
    manager.caches().of(&kinds::NAMESPACES).subscribe(move |change| {
        if change.new.as_ref().is_some_and(|namespace| namespace.deleting) {
            added.add_after(change.object().key.clone(), GRACE);
        }
    });
    let waiting = wake_without_pods(manager, &queue);
    for _ in 0..WORKERS {
        let (client, clock) = (manager.client_for(NAME), manager.clock().clone());
        let drain = Drain { client, clock, waiting: waiting.clone() };
        manager.spawn(drain.run(queue.clone()));
    }
}

/// Namespaces that wait for their pods to terminate.
type Waiting = Arc<Mutex<HashSet<Str>>>;

/// The deletion of a namespace's last pod queues it at once, before the estimated time is over.
fn wake_without_pods(manager: &Manager, queue: &Arc<Queue>) -> Waiting {
    let waiting = Waiting::default();
    let (woken, queue) = (waiting.clone(), queue.clone());
    let pods = manager.caches().of(&kinds::PODS);
    let known = Arc::downgrade(&pods);
    pods.subscribe(move |change| {
        let namespace = &change.object().key.namespace;
        let is_last = || known.upgrade().is_some_and(|pods| pods.has_none_in(namespace));
        if change.new.is_none() && woken.lock().contains(namespace) && is_last() {
            woken.lock().remove(namespace);
            queue.add(Key::new("", namespace.clone()));
        }
    });
    waiting
}

struct Drain {
    client: Client,
    clock: Clock,
    waiting: Waiting,
}

/// The remaining content of one kind in a namespace.
#[derive(Debug, Default)]
struct Remaining {
    /// The estimated seconds until it is deleted; zero if unknown.
    estimate: i64,
    count: usize,
    finalizers: Vec<String>,
}

impl Drain {
    async fn run(self, queue: Arc<Queue>) {
        loop {
            let key = queue.next().await;
            match self.drain(&key).await {
                // Retried when about half of the rest should be deleted.
                Ok(0) => queue.done(&key, false, None),
                Ok(estimate) => {
                    let delay = Duration::from_secs((estimate / 2 + 1).unsigned_abs());
                    queue.done(&key, false, Some(delay));
                }
                Err(error) => {
                    tracing::debug!(namespace = %key, err = %error, "namespace still has content; retrying");
                    queue.done(&key, true, None);
                }
            }
        }
    }

    /// One pass over a namespace. Returns the estimated seconds for the rest.
    async fn drain(&self, key: &Key) -> Result<i64, String> {
        match self.attempt(key).await {
            Err(Failure::Gone) => Ok(0),
            Err(Failure::Because(why)) => Err(why),
            Ok(estimate) => Ok(estimate),
        }
    }

    async fn attempt(&self, key: &Key) -> Result<i64, Failure> {
        let mut namespace = self.client.get(&kinds::NAMESPACES, key).await?;
        if !meta::is_deleting(&namespace) {
            return Ok(0);
        }
        if namespace.str_at(&["status", "phase"]) != Some("Terminating") {
            namespace.set(&["status", "phase"], "Terminating");
            namespace = self.client.update(&kinds::NAMESPACES, &namespace, "status").await?;
        }
        if namespace.items_at(&["spec", "finalizers"]).is_empty() {
            return Ok(0);
        }
        let mut findings = Findings::default();
        let estimate = self.empty(&namespace, &mut findings).await;
        if findings.apply(&mut namespace, self.clock.now()) {
            match self.client.update(&kinds::NAMESPACES, &namespace, "status").await {
                Ok(written) => namespace = written,
                Err(error) => {
                    tracing::debug!(namespace = %key, err = %error, "cannot update namespace conditions; retrying")
                }
            }
        }
        if let Some(why) = findings.discovery.or_else(|| findings.failures.into_iter().next()) {
            return Err(Failure::Because(why));
        }
        if estimate == 0 {
            self.finalize(namespace).await?;
        }
        Ok(estimate)
    }

    /// Deletes all content, pods first.
    async fn empty(&self, namespace: &Value, findings: &mut Findings) -> i64 {
        let discovery = match self.client.discover().await {
            Ok(discovery) => discovery,
            Err(error) => {
                findings.discovery = Some(error.to_string());
                return 0;
            }
        };
        if !discovery.failed.is_empty() {
            findings.discovery = Some(unknown_groups(&discovery.failed));
        }
        let (name, since) = (meta::name(namespace), deleted_at(namespace));
        let deletable = |served: &&Served| served.kind.namespaced && served.has_verbs(&["delete"]);
        let (pods, rest): (Vec<_>, Vec<_>) =
            discovery.preferred().filter(deletable).partition(|served| served.kind == kinds::PODS);
        let mut estimate = 0;
        // Before any is deleted, so that the deletion of the last one is not missed.
        self.waiting.lock().insert(name.into());
        for served in pods {
            let why = format!("failed to delete pods for namespace: {name}, err: ");
            estimate = estimate.max(self.delete_kind(served, name, since, &why, findings).await);
        }
        if !findings.remaining.is_empty() {
            findings.pods_first = true;
            return estimate;
        }
        self.waiting.lock().remove(name);
        for served in rest {
            estimate = estimate.max(self.delete_kind(served, name, since, "", findings).await);
        }
        estimate
    }

    /// Deletes everything of one kind and records what remains. Returns the estimated time for it.
    async fn delete_kind(
        &self,
        served: &Served,
        namespace: &str,
        since: Timestamp,
        why: &str,
        findings: &mut Findings,
    ) -> i64 {
        let left = match self.delete_all(served, namespace, since).await {
            Ok(left) => left,
            Err(error) => {
                findings.failures.push(format!("{why}{error}"));
                return 0;
            }
        };
        if left.count > 0 {
            let kind = &served.kind;
            findings.remaining.insert((kind.plural.clone(), kind.group.clone()), left.count);
            for finalizer in &left.finalizers {
                *findings.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
            if left.estimate == 0 {
                let what = format!("{}/{}, Resource={}", kind.group, kind.version, kind.plural);
                let remain =
                    format!("unexpected items still remain in namespace: {namespace} for gvr: {what}");
                findings.failures.push(format!("{why}{remain}"));
            }
        }
        left.estimate
    }

    async fn delete_all(
        &self,
        served: &Served,
        namespace: &str,
        since: Timestamp,
    ) -> Result<Remaining, Error> {
        let kind = &served.kind;
        let mut estimate = 0;
        if *kind == kinds::PODS {
            let pods = self.client.list(kind, namespace).await?;
            estimate = longest_grace(pods.items_at(&["items"]), since, self.clock.now());
        }
        if served.has_verbs(&["deletecollection"]) {
            let deleted = self.client.delete_collection(kind, namespace).await;
            ignore_unsupported(deleted.map(drop))?;
        } else {
            self.delete_each(kind, namespace).await?;
        }
        if !served.has_verbs(&["list"]) {
            return Ok(Remaining { estimate, ..Remaining::default() });
        }
        let list = self.client.list(kind, namespace).await?;
        Ok(left(list.items_at(&["items"]), estimate))
    }

    async fn delete_each(&self, kind: &Kind, namespace: &str) -> Result<(), Error> {
        let list = self.client.list(kind, namespace).await?;
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for object in list.items_at(&["items"]) {
            let deleted = self.client.delete(kind, &Key::of(object), &options).await;
            ignore_unsupported(deleted.map(drop))?;
        }
        Ok(())
    }

    /// Removes the finalizer; without others, the namespace is deleted.
    async fn finalize(&self, mut namespace: Value) -> Result<(), Failure> {
        let others = namespace.items_at(&["spec", "finalizers"]).iter();
        let others: Vec<_> = others.filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
        namespace.set(&["spec"], value!({"finalizers": (others)}));
        self.client.update(&kinds::NAMESPACES, &namespace, "finalize").await?;
        Ok(())
    }
}

enum Failure {
    /// The namespace is already deleted.
    Gone,
    Because(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.is_not_found() { Failure::Gone } else { Failure::Because(error.to_string()) }
    }
}

/// Discovery may list kinds that cannot be deleted.
fn ignore_unsupported(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if matches!(error.code(), 404 | 405) => Ok(()),
        result => result,
    }
}

fn unknown_groups(failed: &[(String, String)]) -> String {
    let each: Vec<_> = failed.iter().map(|(group, why)| format!("{group}: {why}")).collect();
    let (count, list) = (failed.len(), each.join(", "));
    format!(
        "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {list}"
    )
}

fn deleted_at(namespace: &Value) -> Timestamp {
    let text = namespace.str_at(&["metadata", "deletionTimestamp"]).unwrap_or_default();
    time::parse(text).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The longest grace period of unfinished pods, unless it is over.
fn longest_grace(pods: &[Value], since: Timestamp, now: Timestamp) -> i64 {
    let running =
        pods.iter().filter(|p| !matches!(p.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")));
    let grace = running.filter_map(|p| p.int_at(&["spec", "terminationGracePeriodSeconds"])).max();
    let grace = grace.unwrap_or(0).max(0);
    if now.duration_since(since).as_secs() >= grace { 0 } else { grace }
}

/// The remaining objects of a kind; finalizers add to the estimate.
fn left(items: &[Value], estimate: i64) -> Remaining {
    if items.is_empty() {
        return Remaining::default();
    }
    let finalizers: Vec<_> = items.iter().flat_map(meta::finalizers).map(str::to_owned).collect();
    let estimate = if estimate == 0 && !finalizers.is_empty() { FINALIZERS_TAKE } else { estimate };
    Remaining { estimate, count: items.len(), finalizers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, grace: i64) -> Value {
        value!({"spec": {"terminationGracePeriodSeconds": (grace)}, "status": {"phase": (phase)}})
    }

    #[test]
    fn running_pods_add_their_grace_period_to_the_estimate_once() {
        let since = Timestamp::from_second(1_800_000_000).unwrap();
        let later = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let pods = [pod("Running", 30), pod("Pending", 5), pod("Succeeded", 300)];
        assert_eq!(longest_grace(&pods, since, later(1)), 30);
        assert_eq!(longest_grace(&pods, since, later(30)), 0, "time is up");
        assert_eq!(longest_grace(&[], since, later(0)), 0);
    }

    #[test]
    fn remaining_objects_are_counted_with_their_finalizers() {
        let held = value!({"metadata": {"finalizers": ["a", "b"]}});
        let free = value!({"metadata": {}});
        let rest = left(&[held.clone(), held, free.clone()], 0);
        assert_eq!((rest.estimate, rest.count, rest.finalizers.len()), (FINALIZERS_TAKE, 3, 4));
        assert_eq!(
            left(std::slice::from_ref(&free), 0).estimate,
            0,
            "nothing explains why it is still there"
        );
        assert_eq!(left(&[free], 12).estimate, 12);
        assert_eq!(left(&[], 12).estimate, 0);
    }

    #[test]
    fn groups_that_do_not_answer_are_named() {
        let failed = [("g/v1".to_owned(), "no answer".to_owned())];
        assert_eq!(
            unknown_groups(&failed),
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: g/v1: no answer"
        );
    }
}
