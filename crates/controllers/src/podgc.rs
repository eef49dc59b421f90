//! Pod garbage collector: deletes pods that no kubelet will terminate.
//!
//! Deletes, without a grace period, the pods of nodes that are deleted or out of service, terminating pods that were
//! never bound, and the oldest finished pods beyond the threshold. Marks unfinished ones as failed first. Never touches
//! a pod of a node that exists and is in service.
//!
//! Not a `Controller`: it reconciles all pods together, once per period, because the threshold counts all of them and
//! the quarantine of missing nodes is state between passes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use corten_api::{Str, Value, meta, value};
use corten_client::{Client, DeleteOptions, Error, Key, Object, Patch, kinds};
use corten_reconcile::Manager;
use jiff::{SignedDuration, Timestamp};

use crate::conditions;
use crate::nodes::NodeView;
use crate::pods::Pod;

const NAME: &str = "pod-garbage-collector-controller";
const ACCOUNT: &str = "pod-garbage-collector";
const PERIOD: Duration = Duration::from_secs(20);
/// The time for which a node has to be missing before it counts as deleted: it may be new.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// Options of the pod garbage collector.
#[derive(Debug, Clone, Copy)]
pub struct PodGcOptions {
    /// The number of finished pods that are kept; all of them if not positive.
    pub terminated_pod_threshold: i32,
}

impl Default for PodGcOptions {
    fn default() -> PodGcOptions {
        PodGcOptions { terminated_pod_threshold: 12500 }
    }
}

/// Starts the controller.
pub(crate) fn start(manager: &Manager, options: PodGcOptions) {
    if !manager.is_selected(NAME) {
        return;
    }
    let (client, clock) = (manager.client_for(ACCOUNT), manager.clock().clone());
    let (pods, nodes) = (manager.caches().of(&kinds::PODS), manager.caches().of(&kinds::NODES));
    let threshold = usize::try_from(options.terminated_pod_threshold).ok().filter(|threshold| *threshold > 0);
    manager.spawn(async move {
        pods.synced().await;
        nodes.synced().await;
        let mut quarantine = Quarantine::default();
        let (mut pod_changes, mut node_changes) = (pods.changes(), nodes.changes());
        loop {
            pod_changes.skip();
            node_changes.skip();
            let seen: Vec<Pod> = pods.list("").into_iter().map(Pod::from).collect();
            let nodes: HashMap<Str, Node> =
                nodes.list("").iter().map(|node| (node.key.name.clone(), Node::from(&**node))).collect();
            let mut gone = HashSet::new();
            for node in quarantine.overdue(&seen, &nodes, clock.now()) {
                if is_gone(&client, &node).await {
                    gone.insert(node);
                }
            }
            let mut failed = false;
            for deletions in deletions(&seen, &nodes, &gone, threshold.unwrap_or(usize::MAX)) {
                if let Err(error) = delete_pod(&client, &deletions, clock.now()).await {
                    tracing::warn!(controller = NAME, pod = %deletions.pod.object.key, err = %error, "cannot delete pod; retrying");
                    failed = true;
                }
            }
            // Without a change, only the quarantine or a retry can cause work.
            if quarantine.is_empty() && !failed {
                tokio::select! {
                    () = pod_changes.next() => {}
                    () = node_changes.next() => {}
                }
            }
            clock.sleep(PERIOD).await;
        }
    });
}

/// The fields of a node that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    out_of_service: bool,
}

impl From<&Object> for Node {
    fn from(node: &Object) -> Node {
        Node { out_of_service: node.view::<NodeView>().is_out_of_service() }
    }
}

/// The nodes with pods that are missing, and since when.
#[derive(Debug, Default)]
struct Quarantine(HashMap<Str, Timestamp>);

impl Quarantine {
    /// True if no node is missing.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nodes that have been missing for the whole quarantine.
    fn overdue(&mut self, pods: &[Pod], nodes: &HashMap<Str, Node>, now: Timestamp) -> Vec<Str> {
        let bound = pods.iter().map(|pod| &pod.view.node);
        let missing: HashSet<&Str> =
            bound.filter(|node| !node.is_empty() && !nodes.contains_key(*node)).collect();
        self.0.retain(|node, _| missing.contains(node));
        for node in missing {
            self.0.entry(node.clone()).or_insert(now);
        }
        let overdue = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= QUARANTINE);
        overdue.map(|(node, _)| node.clone()).collect()
    }
}

/// Asks the API server, because the cache may be stale.
async fn is_gone(client: &Client, node: &Str) -> bool {
    let found = client.get(&kinds::NODES, &Key::new("", node.clone())).await;
    found.is_err_and(|error| error.is_not_found())
}

/// A pod to be deleted.
#[derive(Debug)]
struct Deletion {
    pod: Pod,
    node_is_gone: bool,
}

/// The pods to be deleted.
fn deletions(
    pods: &[Pod],
    nodes: &HashMap<Str, Node>,
    gone: &HashSet<Str>,
    finished_kept: usize,
) -> Vec<Deletion> {
    let surplus = surplus(pods, finished_kept);
    let decide = |pod: &Pod| {
        let node = &pod.view.node;
        let node_is_gone = gone.contains(node);
        let out_of_service = nodes.get(node).is_some_and(|node| node.out_of_service);
        let orphaned = pod.object.deleting && (node.is_empty() || out_of_service);
        let ends = node_is_gone || orphaned || surplus.contains(&pod.object.key);
        ends.then(|| Deletion { pod: pod.clone(), node_is_gone })
    };
    pods.iter().filter_map(decide).collect()
}

/// The finished pods beyond the threshold: evicted ones first, then the oldest.
fn surplus(pods: &[Pod], kept: usize) -> HashSet<Key> {
    let mut finished: Vec<_> = pods.iter().filter(|pod| pod.is_finished()).collect();
    let count = finished.len().saturating_sub(kept);
    if count == 0 {
        return HashSet::new();
    }
    finished.sort_by_cached_key(|pod| {
        let evicted = pod.object.tree().str_at(&["status", "reason"]) == Some("Evicted");
        (!evicted, pod.view.created, pod.object.key.name.clone())
    });
    finished[..count].iter().map(|pod| pod.object.key.clone()).collect()
}

/// Deletes a pod without a grace period; marks it as failed first.
async fn delete_pod(client: &Client, deletions: &Deletion, now: Timestamp) -> Result<(), Error> {
    let object = &deletions.pod.object;
    let ended = async {
        if !deletions.pod.is_finished() {
            let patch = Patch::Strategic(failed(&object.tree(), deletions.node_is_gone, now));
            client.patch(&kinds::PODS, &object.key, &patch, "status").await?;
        }
        let options = DeleteOptions {
            grace_seconds: Some(0),
            uid: Some(object.uid.clone()),
            ..DeleteOptions::default()
        };
        client.delete(&kinds::PODS, &object.key, &options).await
    };
    match ended.await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// The status patch of a failed pod.
fn failed(pod: &Value, node_is_gone: bool, now: Timestamp) -> Value {
    let (uid, generation) = (meta::uid(pod), meta::generation(pod));
    let mut patch = value!({ "metadata": { "uid": uid }, "status": { "phase": "Failed" } });
    if generation != 0 {
        patch.set(&["status", "observedGeneration"], generation);
    }
    if node_is_gone {
        let message = "PodGC: node no longer exists";
        let mut condition = conditions::new("DisruptionTarget", "True", "DeletionByPodGC", message, now);
        if conditions::is_true(pod, "DisruptionTarget") {
            condition.remove(&["lastTransitionTime"]);
        }
        if generation != 0 {
            condition.set(&["observedGeneration"], generation);
        }
        patch.set(&["status", "conditions"], vec![condition]);
    }
    patch
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pod(name: &'static str, node: &'static str, phase: &'static str) -> Value {
        value!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "generation": 2 },
            "spec": { "nodeName": node },
            "status": { "phase": phase },
        })
    }

    fn deleting(mut pod: Value) -> Value {
        pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        pod
    }

    fn cached(pods: &[Value]) -> Vec<Pod> {
        pods.iter().map(|pod| Pod::from(Arc::new(Object::of(pod)))).collect()
    }

    fn names(pods: &[Value], kept: usize) -> Vec<String> {
        let nodes = [("up", false), ("down", true)]
            .map(|(name, out_of_service)| (Str::new(name), Node { out_of_service }));
        let gone = HashSet::from([Str::new("gone")]);
        let deletions = deletions(&cached(pods), &HashMap::from(nodes), &gone, kept);
        deletions.iter().map(|deletions| deletions.pod.object.key.name.to_string()).collect()
    }

    #[test]
    fn pods_that_no_kubelet_terminates_are_deleted() {
        let pods = [
            pod("runs", "up", "Running"),
            deleting(pod("goes", "up", "Running")),
            pod("stuck", "down", "Running"),
            deleting(pod("stuck-going", "down", "Running")),
            pod("waits", "", "Pending"),
            deleting(pod("waits-going", "", "Pending")),
            pod("lost", "gone", "Running"),
            pod("unsure", "unseen", "Running"),
        ];
        assert_eq!(names(&pods, 0), ["stuck-going", "waits-going", "lost"]);
    }

    #[test]
    fn the_oldest_of_too_many_finished_pods_go_evicted_ones_first() {
        let finished = |name: &'static str, created: &'static str, reason: &'static str| {
            let mut pod = pod(name, "up", "Failed");
            pod.set(&["metadata", "creationTimestamp"], created);
            pod.set(&["status", "reason"], reason);
            pod
        };
        let pods = [
            finished("new", "2026-01-03T00:00:00Z", ""),
            finished("old", "2026-01-01T00:00:00Z", ""),
            finished("evicted", "2026-01-04T00:00:00Z", "Evicted"),
            pod("runs", "up", "Running"),
        ];
        for (kept, ended) in [
            (3, vec![]),
            (2, vec!["evicted"]),
            (1, vec!["old", "evicted"]),
            (0, vec!["new", "old", "evicted"]),
        ] {
            assert_eq!(names(&pods, kept), ended, "{kept} are kept");
        }
    }

    #[test]
    fn a_node_is_missing_for_a_while_before_it_counts_as_gone() {
        let pods = cached(&[pod("a", "unseen", "Running"), pod("b", "", "Pending")]);
        let (no_nodes, start) = (HashMap::new(), Timestamp::UNIX_EPOCH);
        let after = |seconds| start + SignedDuration::from_secs(seconds);
        let mut quarantine = Quarantine::default();
        assert!(quarantine.overdue(&pods, &no_nodes, start).is_empty());
        assert!(quarantine.overdue(&pods, &no_nodes, after(39)).is_empty());
        assert_eq!(quarantine.overdue(&pods, &no_nodes, after(40)), ["unseen"]);
        let back = HashMap::from([(Str::new("unseen"), Node { out_of_service: false })]);
        assert!(quarantine.overdue(&pods, &back, after(41)).is_empty());
        assert!(quarantine.overdue(&pods, &no_nodes, after(80)).is_empty(), "it starts over");
    }

    #[test]
    fn a_pod_of_a_deleted_node_has_the_disruption_condition() {
        let lost = failed(&pod("p", "gone", "Running"), true, Timestamp::UNIX_EPOCH);
        let wanted = value!({
            "metadata": { "uid": "p" },
            "status": {
                "phase": "Failed",
                "observedGeneration": 2,
                "conditions": [{
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "observedGeneration": 2,
                }],
            },
        });
        assert_eq!(lost, wanted);
        assert_eq!(
            failed(&pod("p", "", "Pending"), false, Timestamp::UNIX_EPOCH).at(&["status", "conditions"]),
            None
        );
    }
}
