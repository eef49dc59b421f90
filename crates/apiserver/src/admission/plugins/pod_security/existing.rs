//! Warnings about existing pods that violate a stricter level.
//!
//! *Invariant:* one tree is held at a time, and no tree is parsed after the deadline: a namespace may have more pods than fit
//! into memory as trees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use corten_api::{Value, meta};

use super::checks::evaluate;
use super::policy::LevelVersion;

const MOST_PODS: usize = 3000;
const MOST_TIME: Duration = Duration::from_secs(1);

/// The warnings of an update that sets the enforced level of a namespace.
pub(super) fn warnings<P>(
    namespace: &str,
    level: LevelVersion,
    pods: &[P],
    tree: impl Fn(&P) -> Value,
) -> Vec<String> {
    let until = Instant::now() + MOST_TIME;
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut checked = 0;
    visit(pods, tree, |pod| {
        checked += 1;
        let violations = evaluate(level, pod);
        if !violations.is_empty() {
            found.entry(violations.reasons()).or_default().insert(meta::name(pod).to_owned());
        }
        checked < MOST_PODS && Instant::now() <= until
    });
    let mut warnings = Vec::new();
    if checked < pods.len() {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{level}\""
        ));
    }
    let mut messages: Vec<String> = found.iter().map(|(reasons, pods)| message(reasons, pods)).collect();
    messages.sort();
    warnings.extend(messages);
    warnings
}

/// Passes pods to `more` one after the other while it returns true, one pod of each controller first: pods of one controller are
/// mostly equal.
fn visit<P>(pods: &[P], tree: impl Fn(&P) -> Value, mut more: impl FnMut(&Value) -> bool) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut is_first = |pod: &Value| {
        let owners = pod.items_at(&["metadata", "ownerReferences"]);
        let controller = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true));
        controller.and_then(|owner| owner.str_at(&["uid"])).is_none_or(|uid| seen.insert(uid.to_owned()))
    };
    // Bounded, so that parsing skipped pods ends too.
    let mut rest = Vec::new();
    for pod in pods {
        if rest.len() >= MOST_PODS {
            break;
        }
        let tree = tree(pod);
        if !is_first(&tree) {
            rest.push(pod);
        } else if !more(&tree) {
            return;
        }
    }
    for pod in rest {
        if !more(&tree(pod)) {
            return;
        }
    }
}

fn message(reasons: &str, pods: &BTreeSet<String>) -> String {
    let first = pods.first().map(String::as_str).unwrap_or_default();
    match pods.len() {
        0 | 1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        more => format!("{first} (and {} other pods): {reasons}", more - 1),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::super::policy::{Level, Version};
    use super::*;

    #[test]
    fn equal_violations_are_reported_together() {
        let pod =
            |name: &str, host: bool| value!({"metadata": {"name": name}, "spec": {"hostNetwork": host}});
        let level = LevelVersion { level: Level::Baseline, version: Version::Latest };
        let pods = [pod("c", true), pod("a", true), pod("b", true), pod("fine", false)];
        assert_eq!(
            warnings("ns", level, &pods, Value::clone),
            [
                r#"existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest""#,
                "a (and 2 other pods): host namespaces"
            ]
        );
        assert!(warnings("ns", level, &[pod("fine", false)], Value::clone).is_empty());
    }

    #[test]
    fn one_pod_of_each_controller_is_checked_first() {
        let pod = |name: &str, uid: &str| value!({"metadata": {"name": name, "ownerReferences": [{"uid": uid, "controller": true}]}});
        let pods = [pod("a1", "a"), pod("a2", "a"), pod("b1", "b")];
        let mut ordered = Vec::new();
        visit(&pods, Value::clone, |pod| {
            ordered.push(meta::name(pod).to_owned());
            true
        });
        assert_eq!(ordered, ["a1", "b1", "a2"]);
    }

    #[test]
    fn no_more_trees_are_read_than_are_checked() {
        let read = std::cell::Cell::new(0);
        let tree = |i: &usize| {
            read.set(read.get() + 1);
            value!({"metadata": {"name": (format!("p{i}")), "ownerReferences": [{"uid": "a", "controller": true}]}})
        };
        let level = LevelVersion { level: Level::Baseline, version: Version::Latest };
        let pods: Vec<usize> = (0..100_000).collect();
        let told = warnings("ns", level, &pods, tree);
        assert!(
            told[0].starts_with("new PodSecurity enforce level only checked against the first "),
            "{told:?}"
        );
        assert!(read.get() <= 2 * MOST_PODS + 1, "{} of 100,000 trees were read", read.get());
    }
}
