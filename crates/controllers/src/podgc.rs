//! Pod garbage collection: pods that nobody will ever end are ended.
//!
//! Looks at all pods now and then. Deletes, without grace, the pods of nodes that are gone or out of service,
//! those that go without ever having had a node, and the oldest of too many finished ones. Marks what had not
//! finished as failed first. Never touches a pod that a living node takes care of.

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
/// A node that is not seen may be new: it is believed gone only after this long.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// When finished pods are too many.
#[derive(Debug, Clone, Copy)]
pub struct PodGcOptions {
    /// How many are kept; all of them if this is not positive.
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
            for condemned in condemned(&seen, &nodes, &gone, threshold.unwrap_or(usize::MAX)) {
                if let Err(error) = end(&client, &condemned, clock.now()).await {
                    tracing::warn!(controller = NAME, key = %condemned.pod.object.key, %error, "request failed");
                    failed = true;
                }
            }
            // Only what is being waited for can come without a change.
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

/// What matters of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    out_of_service: bool,
}

impl From<&Object> for Node {
    fn from(node: &Object) -> Node {
        Node { out_of_service: node.view::<NodeView>().is_out_of_service() }
    }
}

/// Since when nodes that pods are bound to have not been seen.
#[derive(Debug, Default)]
struct Quarantine(HashMap<Str, Timestamp>);

impl Quarantine {
    /// Whether nobody is missing.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nodes that have been missing for long enough.
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

/// Caches may be behind; the server is not.
async fn is_gone(client: &Client, node: &Str) -> bool {
    let found = client.get(&kinds::NODES, &Key::new("", node.clone())).await;
    found.is_err_and(|error| error.is_not_found())
}

/// A pod to be ended.
#[derive(Debug)]
struct Condemned {
    pod: Pod,
    node_is_gone: bool,
}

/// The pods to be ended.
fn condemned(
    pods: &[Pod],
    nodes: &HashMap<Str, Node>,
    gone: &HashSet<Str>,
    finished_kept: usize,
) -> Vec<Condemned> {
    let surplus = surplus(pods, finished_kept);
    let judge = |pod: &Pod| {
        let node = &pod.view.node;
        let node_is_gone = gone.contains(node);
        let out_of_service = nodes.get(node).is_some_and(|node| node.out_of_service);
        let forsaken = pod.object.deleting && (node.is_empty() || out_of_service);
        let ends = node_is_gone || forsaken || surplus.contains(&pod.object.key);
        ends.then(|| Condemned { pod: pod.clone(), node_is_gone })
    };
    pods.iter().filter_map(judge).collect()
}

/// The finished pods beyond those that are kept: evicted ones first, then the oldest.
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

/// Ends a pod: nobody waits for its containers.
async fn end(client: &Client, condemned: &Condemned, now: Timestamp) -> Result<(), Error> {
    let object = &condemned.pod.object;
    let ended = async {
        if !condemned.pod.is_finished() {
            let patch = Patch::Strategic(failed(&object.tree(), condemned.node_is_gone, now));
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

/// What makes a pod a failed one.
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
        let condemned = condemned(&cached(pods), &HashMap::from(nodes), &gone, kept);
        condemned.iter().map(|condemned| condemned.pod.object.key.name.to_string()).collect()
    }

    #[test]
    fn pods_nobody_will_end_are_ended() {
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
        let (nobody, start) = (HashMap::new(), Timestamp::UNIX_EPOCH);
        let after = |seconds| start + SignedDuration::from_secs(seconds);
        let mut quarantine = Quarantine::default();
        assert!(quarantine.overdue(&pods, &nobody, start).is_empty());
        assert!(quarantine.overdue(&pods, &nobody, after(39)).is_empty());
        assert_eq!(quarantine.overdue(&pods, &nobody, after(40)), ["unseen"]);
        let back = HashMap::from([(Str::new("unseen"), Node { out_of_service: false })]);
        assert!(quarantine.overdue(&pods, &back, after(41)).is_empty());
        assert!(quarantine.overdue(&pods, &nobody, after(80)).is_empty(), "it starts over");
    }

    #[test]
    fn a_pod_whose_node_is_gone_says_so() {
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
