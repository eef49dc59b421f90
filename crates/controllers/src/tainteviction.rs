//! Taint eviction controller: evicts pods that do not tolerate the NoExecute taints of their node, at once or after
//! their `tolerationSeconds`.
//!
//! Watches nodes and pods. Marks the pods it deletes with the condition DisruptionTarget. Never taints a node, and
//! never touches a pod whose node has no such taint.
//!
//! Not a `Controller`: the time for which a pod was first scheduled to be evicted is state between reconciles, and an
//! eviction reads the pod from the API server right before it deletes it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta, placement, value};
use corten_base::Clock;
use corten_client::{Cache, Change, Client, DeleteOptions, Error, Key, Object, Patch, kinds};
use corten_reconcile::{Event, Manager, Queue, Recorder};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::nodes::{self, NodeView};
use crate::pods::PodView;
use crate::{conditions, taints};

const NAME: &str = "taint-eviction-controller";
const WORKERS: usize = 8;
const REASON: &str = "TaintManagerEviction";

pub(crate) fn start(manager: &Manager) {
    if !manager.is_selected(NAME) {
        return;
    }
    let evictor = Arc::new(Evictor {
        client: manager.client_for(nodes::ACCOUNT),
        clock: manager.clock().clone(),
        recorder: manager.recorder().clone(),
        nodes: manager.caches().of(&kinds::NODES),
        pods: manager.caches().of(&kinds::PODS),
        scheduled: Mutex::default(),
    });
    let queue = manager.queue(NAME);
    subscribe(manager, &evictor, &queue);
    for _ in 0..WORKERS {
        manager.spawn(evictor.clone().run(queue.clone()));
    }
}

/// Queues pods when their tolerations or their node's taints change.
fn subscribe(manager: &Manager, evictor: &Arc<Evictor>, queue: &Arc<Queue>) {
    let (added, caches) = (queue.clone(), manager.caches().clone());
    caches.index(&nodes::PODS);
    evictor.nodes.subscribe(move |change| {
        let taints = |node: &Arc<Object>| taints::no_execute(&node.view::<NodeView>().taints);
        let (old, new) = (change.old.as_ref().map(taints), change.new.as_ref().map(taints));
        // A deleted node cancels no eviction.
        if new.is_some() && new.as_ref() != Some(&old.unwrap_or_default()) {
            let pods = caches.keys_by(&nodes::PODS, &change.object().key);
            pods.into_iter().for_each(|pod| added.add(pod));
        }
    });
    let (added, known) = (queue.clone(), evictor.clone());
    evictor.pods.subscribe(move |change| {
        if known.concerns(change) {
            added.add(change.object().key.clone());
        }
    });
}

/// The decision about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It stays.
    Stay,
    /// It is evicted at this time.
    EvictAt(Timestamp),
}

struct Scheduled {
    uid: Str,
    at: Timestamp,
}

struct Evictor {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    nodes: Arc<Cache>,
    pods: Arc<Cache>,
    /// The pods that are scheduled to be evicted, and when.
    scheduled: Mutex<HashMap<Key, Scheduled>>,
}

impl Evictor {
    async fn run(self: Arc<Self>, queue: Arc<Queue>) {
        self.nodes.synced().await;
        self.pods.synced().await;
        loop {
            let key = queue.next().await;
            match self.reconcile(&key).await {
                Ok(again) => queue.done(&key, false, again),
                Err(error) => {
                    tracing::warn!(controller = NAME, pod = %key, err = %error, "cannot evict pod; retrying");
                    queue.done(&key, true, None);
                }
            }
        }
    }

    /// True if a change of a pod matters: a scheduled pod was deleted, or a pod was bound to a tainted node or changed
    /// its tolerations there.
    fn concerns(&self, change: &Change) -> bool {
        let Some(new) = &change.new else { return self.scheduled.lock().contains_key(&change.object().key) };
        let node = |pod: &Object| pod.view::<PodView>().node.clone();
        if self.taints(&node(new)).is_none_or(|taints| taints.is_empty()) {
            return false;
        }
        let tolerations = |pod: &Object| pod.tree().items_at(&["spec", "tolerations"]).to_vec();
        let same = |old: &Arc<Object>| node(old) == node(new) && tolerations(old) == tolerations(new);
        !change.old.as_ref().is_some_and(same)
    }

    /// The NoExecute taints of a node; `None` if it does not exist.
    fn taints(&self, node: &Str) -> Option<Vec<Value>> {
        let node = self.nodes.get(&Key::new("", node.clone()))?;
        Some(taints::no_execute(&node.view::<NodeView>().taints))
    }

    /// Evicts a pod if its time has come. Returns the delay until the next check.
    async fn reconcile(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(key) else {
            self.cancel(key);
            return Ok(None);
        };
        let now = self.clock.now();
        let scheduled = self.scheduled(&pod);
        let decision = match self.taints(&pod.view::<PodView>().node) {
            Some(taints) => decide(&taints, pod.tree().items_at(&["spec", "tolerations"]), scheduled, now),
            // A deleted node does not change earlier decisions.
            None => scheduled.map_or(Decision::Stay, Decision::EvictAt),
        };
        match decision {
            Decision::Stay => {
                self.cancel(key);
                Ok(None)
            }
            Decision::EvictAt(at) if at > now => {
                self.scheduled.lock().insert(key.clone(), Scheduled { uid: pod.uid.clone(), at });
                Ok(Some(at.duration_since(now).unsigned_abs()))
            }
            Decision::EvictAt(at) => {
                // An eviction earlier than scheduled is reported as upstream does: the later one is cancelled.
                if scheduled.is_some_and(|scheduled| scheduled > at) {
                    self.cancel(key);
                }
                self.evict(key).await?;
                self.scheduled.lock().remove(key);
                Ok(None)
            }
        }
    }

    /// The time at which a pod is to be evicted. Another pod of the same name starts over.
    fn scheduled(&self, pod: &Object) -> Option<Timestamp> {
        let (uid, at) = self.scheduled.lock().get(&pod.key).map(|known| (known.uid.clone(), known.at))?;
        if uid == pod.uid {
            return Some(at);
        }
        self.cancel(&pod.key);
        None
    }

    fn cancel(&self, key: &Key) {
        if self.scheduled.lock().remove(key).is_some() {
            self.record_event(key, format!("Cancelling deletion of Pod {key}"));
        }
    }

    fn record_event(&self, key: &Key, message: String) {
        let about = kinds::PODS.new_object(&key.namespace, &key.name);
        self.recorder.record(Event::normal(NAME, &about, REASON, message));
    }

    async fn evict(&self, key: &Key) -> Result<(), Error> {
        tracing::info!(controller = NAME, pod = %key, "deleting pod: its node has a NoExecute taint that it does not tolerate, or no longer");
        self.record_event(key, format!("Marking for deletion Pod {key}"));
        let evicted = async {
            let pod = self.client.get(&kinds::PODS, key).await?;
            if let Some(patch) = disrupted(&pod, self.clock.now()) {
                self.client.patch(&kinds::PODS, key, &Patch::Strategic(patch), "status").await?;
            }
            let options = DeleteOptions { uid: Some(meta::uid(&pod).into()), ..DeleteOptions::default() };
            self.client.delete(&kinds::PODS, key, &options).await
        };
        match evicted.await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// The decision about a pod with these tolerations. The time it was first scheduled for stays.
fn decide(taints: &[Value], tolerations: &[Value], scheduled: Option<Timestamp>, now: Timestamp) -> Decision {
    let used = taints.iter().map(|taint| tolerations.iter().find(|t| placement::covers(t, taint)));
    let Some(used) = used.collect::<Option<Vec<_>>>() else { return Decision::EvictAt(now) };
    let Some(seconds) = used.iter().filter_map(|t| t.int_at(&["tolerationSeconds"])).min() else {
        return Decision::Stay;
    };
    let limit = now.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
    Decision::EvictAt(scheduled.unwrap_or(limit))
}

/// The DisruptionTarget condition of an eviction; `None` if the pod has it.
fn disrupted(pod: &Value, now: Timestamp) -> Option<Value> {
    const KIND: &str = "DisruptionTarget";
    const REASON_FOR_DELETION: &str = "DeletionByTaintManager";
    let known = conditions::condition(pod, KIND);
    if conditions::is_true(pod, KIND)
        && known.and_then(|c| c.str_at(&["reason"])) == Some(REASON_FOR_DELETION)
    {
        return None;
    }
    let message = "Taint manager: deleting due to NoExecute taint";
    let mut condition = conditions::new(KIND, "True", REASON_FOR_DELETION, message, now);
    if conditions::is_true(pod, KIND) {
        condition.remove(&["lastTransitionTime"]);
    }
    if meta::generation(pod) != 0 {
        condition.set(&["observedGeneration"], meta::generation(pod));
    }
    Some(value!({"metadata": {"uid": (meta::uid(pod))}, "status": {"conditions": [(condition)]}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, at_text};

    fn taint(key: &str) -> Value {
        value!({"key": key, "value": "v", "effect": "NoExecute"})
    }

    /// A toleration of a taint, for some seconds or for ever.
    fn tolerates(key: &str, seconds: Option<i64>) -> Value {
        let mut toleration = value!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds {
            toleration.set(&["tolerationSeconds"], seconds);
        }
        toleration
    }

    #[test]
    fn pods_are_evicted_by_their_tolerations() {
        let evict = |seconds| Decision::EvictAt(at(seconds));
        let a = [taint("a")];
        let both = [taint("a"), taint("b")];
        for (case, taints, tolerations, scheduled, expected) in [
            ("no taint", &[][..], vec![], None, Decision::Stay),
            ("the last taint went", &[], vec![], Some(30), Decision::Stay),
            ("not tolerated", &a, vec![], None, evict(10)),
            ("another is tolerated", &a, vec![tolerates("b", None)], None, evict(10)),
            ("tolerated for ever", &a, vec![tolerates("a", None)], None, Decision::Stay),
            ("now tolerated for ever", &a, vec![tolerates("a", None)], Some(30), Decision::Stay),
            ("tolerated for a while", &a, vec![tolerates("a", Some(60))], None, evict(70)),
            ("the first time counts", &a, vec![tolerates("a", Some(60))], Some(30), evict(30)),
            ("tolerated for no time", &a, vec![tolerates("a", Some(0))], None, evict(10)),
            ("tolerated for less than none", &a, vec![tolerates("a", Some(-5))], None, evict(10)),
            ("one of two is not tolerated", &both, vec![tolerates("a", None)], None, evict(10)),
            ("no longer tolerated", &both, vec![tolerates("a", None)], Some(30), evict(10)),
            (
                "the shorter of two counts",
                &both,
                vec![tolerates("a", Some(60)), tolerates("b", Some(20))],
                None,
                evict(30),
            ),
            (
                "one for ever, one not",
                &both,
                vec![tolerates("a", None), tolerates("b", Some(20))],
                None,
                evict(30),
            ),
            (
                "the first toleration that fits counts",
                &a,
                vec![tolerates("a", Some(60)), tolerates("a", Some(5))],
                None,
                evict(70),
            ),
        ] {
            let decision = decide(taints, &tolerations, scheduled.map(at), at(10));
            assert_eq!(decision, expected, "{case}");
        }
    }

    #[test]
    fn evicted_pods_have_the_disruption_condition() {
        let mut pod = value!({"metadata": {"uid": "u", "generation": 3}});
        let patch = disrupted(&pod, at(0)).unwrap();
        let condition = value!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": (at_text(0)), "observedGeneration": 3,
        });
        assert_eq!(
            patch,
            value!({"metadata": {"uid": "u"}, "status": {"conditions": [(condition.clone())]}})
        );
        pod.set(&["status", "conditions"], vec![condition.clone()]);
        assert_eq!(disrupted(&pod, at(5)), None, "it says so already");
        pod.set(&["status", "conditions"], value!([{"type": "DisruptionTarget", "status": "True"}]));
        let again = disrupted(&pod, at(5)).unwrap();
        assert!(
            again.items_at(&["status", "conditions"])[0].get("lastTransitionTime").is_none(),
            "{again:?}"
        );
    }
}
