//! What a stricter level would say of the pods that are there already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use corten_api::{Value, meta};

use super::checks::evaluate;
use super::policy::LevelVersion;

const MOST_PODS: usize = 3000;
const MOST_TIME: Duration = Duration::from_secs(1);

/// The warnings for whoever sets a level to be enforced in a namespace.
pub(super) fn warnings(
    namespace: &str,
    level: LevelVersion,
    pods: impl Iterator<Item = Value>,
) -> Vec<String> {
    let pods = one_of_each_first(pods.collect());
    let until = Instant::now() + MOST_TIME;
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut checked = 0;
    for pod in pods.iter().take(MOST_PODS) {
        checked += 1;
        let violations = evaluate(level, pod);
        if !violations.is_empty() {
            found.entry(violations.reasons()).or_default().insert(meta::name(pod));
        }
        if Instant::now() > until {
            break;
        }
    }
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
    let mut told: Vec<String> = found.iter().map(|(reasons, pods)| tell(reasons, pods)).collect();
    told.sort();
    warnings.extend(told);
    warnings
}

/// Pods of one controller are alike: the first of each comes before the rest of any.
fn one_of_each_first(pods: Vec<Value>) -> Vec<Value> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let (first, rest): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(|pod| {
        let owners = pod.items_at(&["metadata", "ownerReferences"]);
        let controller = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true));
        controller.and_then(|owner| owner.str_at(&["uid"])).is_none_or(|uid| seen.insert(uid.to_owned()))
    });
    first.into_iter().chain(rest).collect()
}

fn tell(reasons: &str, pods: &BTreeSet<&str>) -> String {
    let first = pods.first().copied().unwrap_or_default();
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
    fn alike_pods_are_told_together() {
        let pod =
            |name: &str, host: bool| value!({"metadata": {"name": name}, "spec": {"hostNetwork": host}});
        let level = LevelVersion { level: Level::Baseline, version: Version::Latest };
        let pods = [pod("c", true), pod("a", true), pod("b", true), pod("fine", false)];
        assert_eq!(
            warnings("ns", level, pods.into_iter()),
            [
                r#"existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest""#,
                "a (and 2 other pods): host namespaces"
            ]
        );
        assert!(warnings("ns", level, [pod("fine", false)].into_iter()).is_empty());
    }

    #[test]
    fn one_pod_of_each_controller_goes_first() {
        let pod = |name: &str, uid: &str| value!({"metadata": {"name": name, "ownerReferences": [{"uid": uid, "controller": true}]}});
        let ordered = one_of_each_first(vec![pod("a1", "a"), pod("a2", "a"), pod("b1", "b")]);
        assert_eq!(ordered.iter().map(meta::name).collect::<Vec<_>>(), ["a1", "b1", "a2"]);
    }
}
