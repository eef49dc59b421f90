//! Selects the dead containers and sandboxes to remove. Pure.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use corten_container::{Container, ContainerState, PodSandbox, PodSandboxState};
use jiff::Timestamp;

use crate::containers::labels;

/// The policy of container garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerPolicy {
    /// The minimum age of a dead container before it is removed.
    pub(crate) least_age: Duration,
    /// The maximum of dead containers for each container of a pod; unlimited if `None`.
    pub(crate) most_of_each: Option<usize>,
    /// The maximum of dead containers in all; unlimited if `None`.
    pub(crate) most: Option<usize>,
}

impl Default for ContainerPolicy {
    fn default() -> ContainerPolicy {
        ContainerPolicy { least_age: Duration::ZERO, most_of_each: Some(1), most: None }
    }
}

/// The ids of the containers to remove. `over` are the pods of which no container is kept.
pub(super) fn removable(
    containers: &[Container],
    over: &HashSet<String>,
    policy: &ContainerPolicy,
    now: Timestamp,
) -> Vec<String> {
    let old = |container: &&Container| {
        let age = Duration::try_from(now.duration_since(container.created_at)).unwrap_or_default();
        age >= policy.least_age
    };
    let mut units: BTreeMap<(&str, &str), Vec<&Container>> = BTreeMap::new();
    for container in containers.iter().filter(|c| c.state != ContainerState::Running).filter(old) {
        let uid = container.labels.get(labels::POD_UID).map_or("", String::as_str);
        units.entry((uid, container.metadata.name.as_str())).or_default().push(container);
    }
    let mut chosen = Vec::new();
    let mut kept: Vec<Vec<&Container>> = Vec::new();
    for ((uid, _), mut unit) in units {
        unit.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        let most = if over.contains(uid) { Some(0) } else { policy.most_of_each };
        let rest = unit.split_off(most.unwrap_or(unit.len()).min(unit.len()));
        chosen.extend(rest.iter().map(|container| container.id.clone()));
        kept.push(unit);
    }
    chosen.extend(beyond(kept, policy));
    // A container that was created and not started may be about to start.
    let made: HashSet<&str> =
        containers.iter().filter(|c| c.state == ContainerState::Created).map(|c| c.id.as_str()).collect();
    chosen.retain(|id| !made.contains(id.as_str()));
    chosen
}

/// The containers beyond the maximum in all: the oldest of each container first, then the oldest of all.
fn beyond(mut kept: Vec<Vec<&Container>>, policy: &ContainerPolicy) -> Vec<String> {
    kept.retain(|unit| !unit.is_empty());
    let count = |kept: &[Vec<&Container>]| kept.iter().map(Vec::len).sum::<usize>();
    let Some(most) = policy.most.filter(|most| count(&kept) > *most) else { return Vec::new() };
    let each = (most / kept.len()).max(1);
    let mut chosen = Vec::new();
    for unit in &mut kept {
        chosen.extend(unit.split_off(each.min(unit.len())).iter().map(|container| container.id.clone()));
    }
    let mut left: Vec<&Container> = kept.into_iter().flatten().collect();
    left.sort_by_key(|container| std::cmp::Reverse(container.created_at));
    let rest = left.split_off(most.min(left.len()));
    chosen.extend(rest.iter().map(|container| container.id.clone()));
    chosen
}

/// The dead sandboxes without containers, except for the newest of each pod that is not in `over`.
pub(super) fn removable_sandboxes(
    sandboxes: &[PodSandbox],
    containers: &[Container],
    over: &HashSet<String>,
) -> Vec<String> {
    let holds: HashSet<&str> = containers.iter().map(|c| c.pod_sandbox_id.as_str()).collect();
    let mut pods: BTreeMap<&str, Vec<&PodSandbox>> = BTreeMap::new();
    for sandbox in sandboxes {
        pods.entry(&sandbox.metadata.uid).or_default().push(sandbox);
    }
    let mut chosen = Vec::new();
    for (uid, mut own) in pods {
        own.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        let kept = usize::from(!over.contains(uid));
        let idle = |s: &&&PodSandbox| s.state != PodSandboxState::Ready && !holds.contains(s.id.as_str());
        chosen.extend(own.iter().skip(kept).filter(idle).map(|sandbox| sandbox.id.clone()));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use corten_container::{ContainerMetadata, Map, PodSandboxMetadata};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn container(id: &str, pod: &str, name: &str, created: i64, state: ContainerState) -> Container {
        Container {
            id: id.to_owned(),
            pod_sandbox_id: format!("{pod}-sandbox"),
            metadata: ContainerMetadata { name: name.to_owned(), attempt: 0 },
            state,
            created_at: at(created),
            labels: Map::from([(labels::POD_UID.to_owned(), pod.to_owned())]),
            ..Container::default()
        }
    }

    fn dead(id: &str, pod: &str, name: &str, created: i64) -> Container {
        container(id, pod, name, created, ContainerState::Exited)
    }

    #[track_caller]
    fn check(containers: &[Container], policy: ContainerPolicy, over: &[&str], expected: &[&str]) {
        let over = over.iter().map(|uid| (*uid).to_owned()).collect();
        let mut found = removable(containers, &over, &policy, at(100));
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_dead_container_of_each_is_kept() {
        let all = [
            dead("a0", "p", "a", 1),
            dead("a1", "p", "a", 2),
            dead("a2", "p", "a", 3),
            dead("b0", "p", "b", 1),
            dead("q0", "q", "a", 1),
            container("a3", "p", "a", 4, ContainerState::Running),
            container("c0", "p", "c", 4, ContainerState::Created),
        ];
        let policy = ContainerPolicy::default();
        check(&all, policy, &[], &["a0", "a1"]);
        check(
            &all,
            ContainerPolicy { most_of_each: Some(0), ..policy },
            &[],
            &["a0", "a1", "a2", "b0", "q0"],
        );
        check(&all, ContainerPolicy { most_of_each: None, ..policy }, &[], &[]);
        check(&all, ContainerPolicy { least_age: Duration::from_secs(99), ..policy }, &[], &[]);
        check(&all, policy, &["q"], &["a0", "a1", "q0"]);
    }

    #[test]
    fn the_maximum_in_all_is_kept() {
        let all = [
            dead("a0", "p", "a", 1),
            dead("a1", "p", "a", 2),
            dead("b0", "q", "b", 3),
            dead("c0", "r", "c", 4),
        ];
        let policy =
            |most| ContainerPolicy { most_of_each: Some(2), most: Some(most), ..ContainerPolicy::default() };
        check(&all, policy(4), &[], &[]);
        check(&all, policy(3), &[], &["a0"]);
        check(&all, policy(2), &[], &["a0", "a1"]);
        check(&all, policy(0), &[], &["a0", "a1", "b0", "c0"]);
    }

    #[test]
    fn the_newest_sandbox_of_a_pod_is_kept() {
        let sandbox = |id: &str, pod: &str, created, state| PodSandbox {
            id: id.to_owned(),
            metadata: PodSandboxMetadata { uid: pod.to_owned(), ..PodSandboxMetadata::default() },
            state,
            created_at: at(created),
            ..PodSandbox::default()
        };
        let all = [
            sandbox("p0", "p", 1, PodSandboxState::NotReady),
            sandbox("p1", "p", 2, PodSandboxState::NotReady),
            sandbox("p2", "p", 3, PodSandboxState::NotReady),
            sandbox("q0", "q", 1, PodSandboxState::NotReady),
            sandbox("r0", "r", 1, PodSandboxState::Ready),
        ];
        let mut holding = dead("x", "p", "a", 1);
        holding.pod_sandbox_id = "p1".to_owned();
        let over = HashSet::from(["q".to_owned(), "r".to_owned()]);
        assert_eq!(removable_sandboxes(&all, &[holding], &over), ["p0", "q0"]);
    }
}
