//! How far the removal of a namespace's content has come, and the conditions that tell of it. Pure.

use std::collections::BTreeMap;

use corten_api::{Value, meta, time};
use corten_client::{Discovery, Kind};
use jiff::Timestamp;

use crate::conditions;

/// How long finalizers are assumed to take.
const FINALIZERS_SECONDS: i64 = 15;

/// A type of condition, and what it says while all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// What is still there: how many, by resource and group.
    remaining: BTreeMap<String, usize>,
    /// How many wait for each finalizer.
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
    discovery_failure: Option<String>,
    /// How many seconds what remains may take; nothing if nothing is to be waited for.
    pub(super) estimate: i64,
}

impl Progress {
    /// The start, with what is known of what there is to delete.
    pub(super) fn new(discovered: &Discovery) -> Progress {
        let failed = &discovered.failed;
        let discovery_failure = (!failed.is_empty()).then(|| {
            let failures: Vec<_> = failed.iter().map(|(group, why)| format!("{group}: {why}")).collect();
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server \
                 APIs: {}",
                failed.len(),
                failures.join(", ")
            )
        });
        Progress { discovery_failure, ..Progress::default() }
    }

    pub(super) fn failed(&mut self, failure: String) {
        self.failures.push(failure);
    }

    pub(super) fn has_failures(&self) -> bool {
        !self.failures.is_empty() || self.discovery_failure.is_some()
    }

    /// Takes in what is left of a kind after all of it was deleted; `grace` is how long its objects may take.
    pub(super) fn left(&mut self, namespace: &str, kind: &Kind, objects: &[Value], grace: i64) {
        if objects.is_empty() {
            return;
        }
        *self.remaining.entry(format!("{}.{}", kind.plural, kind.group)).or_default() += objects.len();
        let mut finalized = false;
        for finalizer in objects.iter().flat_map(meta::finalizers) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            finalized = true;
        }
        let estimate = match grace {
            0 if finalized => FINALIZERS_SECONDS,
            grace => grace,
        };
        if estimate == 0 {
            let Kind { group, version, plural, .. } = kind;
            self.failed(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
            ));
        }
        self.estimate = self.estimate.max(estimate);
    }

    /// Nothing is said of content that waits for pods to go first.
    pub(super) fn forget_content(&mut self) {
        self.remaining.clear();
        self.finalizers.clear();
    }

    /// Puts the conditions into a namespace; whether that changed anything.
    pub(super) fn tell(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let mut changed = false;
        for (kind, reason, message) in CONDITIONS {
            let (status, reason, message) = match self.trouble(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let known = conditions::condition(namespace, kind);
            let field = |key: &str| known.and_then(|known| known.str_at(&[key])).unwrap_or_default();
            if field("status") == status && field("reason") == reason && field("message") == message {
                continue;
            }
            let since = match field("lastTransitionTime") {
                since if field("status") == status => since.to_owned(),
                _ => time::format(now).to_string(),
            };
            let mut condition = conditions::new(kind, status, reason, &message, now);
            condition.set(&["lastTransitionTime"], since);
            put(namespace, kind, condition);
            changed = true;
        }
        changed
    }

    /// Why a condition holds.
    fn trouble(&self, condition: &str) -> Option<(&'static str, String)> {
        match condition {
            "NamespaceDeletionDiscoveryFailure" => {
                self.discovery_failure.clone().map(|message| ("DiscoveryFailed", message))
            }
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort();
                let (count, failures) = (failures.len(), failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {failures}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let kinds = counted(&self.remaining, "has");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {kinds}")))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let finalizers = counted(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {finalizers}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

fn counted(counts: &BTreeMap<String, usize>, word: &str) -> String {
    let parts: Vec<_> =
        counts.iter().map(|(what, count)| format!("{what} {word} {count} resource instances")).collect();
    parts.join(", ")
}

/// Replaces a condition where it is, or adds it.
fn put(namespace: &mut Value, kind: &str, condition: Value) {
    let status = namespace.make_object().entry("status").make_object();
    let list = status.entry("conditions").make_array();
    match list.iter_mut().find(|known| known.str_at(&["type"]) == Some(kind)) {
        Some(known) => *known = condition,
        None => list.push(condition),
    }
}

/// How long pods may take to end, given that the namespace has been going for `elapsed` seconds already.
pub(super) fn grace_of_pods(pods: &[Value], elapsed: i64) -> i64 {
    let ended = |pod: &&Value| matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    let grace = |pod: &Value| pod.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
    let longest = pods.iter().filter(|pod| !ended(pod)).map(grace).max().unwrap_or(0);
    if elapsed >= longest { 0 } else { longest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;
    use corten_client::kinds;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn told(progress: &Progress, namespace: &mut Value) -> Vec<String> {
        progress.tell(namespace, NOW);
        let text = |c: &Value, key: &str| c.str_at(&[key]).unwrap_or_default().to_owned();
        let conditions = namespace.items_at(&["status", "conditions"]).iter();
        conditions
            .filter(|c| text(c, "status") == "True")
            .map(|c| format!("{}: {}", text(c, "reason"), text(c, "message")))
            .collect()
    }

    #[test]
    fn what_remains_is_told() {
        let mut namespace = value!({ "metadata": { "name": "n" } });
        let mut progress = Progress::default();
        let held = value!({ "metadata": { "finalizers": ["shop.example/hold"] } });
        progress.left("n", &kinds::DEPLOYMENTS, &[held.clone(), held], 0);
        progress.left("n", &kinds::SECRETS, &[], 0);
        assert_eq!(progress.estimate, 15);
        assert!(!progress.has_failures());
        assert_eq!(
            told(&progress, &mut namespace),
            [
                "SomeResourcesRemain: Some resources are remaining: deployments.apps has 2 resource instances",
                "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
                 shop.example/hold in 2 resource instances",
            ]
        );
        assert!(!progress.tell(&mut namespace, NOW), "nothing new, nothing written");
        assert!(told(&Progress::default(), &mut namespace).is_empty(), "all is well again");
        assert_eq!(namespace.items_at(&["status", "conditions"]).len(), 5);
    }

    #[test]
    fn what_should_be_gone_is_a_failure() {
        let mut progress = Progress::default();
        progress.left("n", &kinds::SECRETS, &[Value::object()], 0);
        progress.failed("another".to_owned());
        assert_eq!(progress.estimate, 0);
        assert!(progress.has_failures());
        assert_eq!(
            told(&progress, &mut Value::object()),
            [
                "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: another, unexpected \
                 items still remain in namespace: n for gvr: /v1, Resource=secrets",
                "SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances",
            ]
        );
    }

    #[test]
    fn groups_nobody_answers_for_are_told() {
        let discovered = Discovery {
            failed: vec![("a.b/v1".to_owned(), "stale GroupVersion discovery: a.b/v1".to_owned())],
            ..Discovery::default()
        };
        let progress = Progress::new(&discovered);
        assert!(progress.has_failures());
        assert_eq!(
            told(&progress, &mut Value::object()),
            [
                "DiscoveryFailed: Discovery failed for some groups, 1 failing: unable to retrieve the complete \
                 list of server APIs: a.b/v1: stale GroupVersion discovery: a.b/v1"
            ]
        );
    }

    #[test]
    fn pods_have_their_grace_period() {
        let pod = |seconds: i64, phase: &'static str| value!({ "spec": { "terminationGracePeriodSeconds": seconds }, "status": { "phase": phase } });
        let pods = [pod(30, "Running"), pod(60, "Failed"), pod(10, "Pending")];
        for (elapsed, grace) in [(0, 30), (29, 30), (30, 0), (100, 0)] {
            assert_eq!(grace_of_pods(&pods, elapsed), grace, "after {elapsed}s");
        }
        assert_eq!(grace_of_pods(&[], 0), 0);
    }
}
