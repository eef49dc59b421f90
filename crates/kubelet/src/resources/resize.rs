//! Actuates the resources that are newly allocated to running pods.
//!
//! The pod's cgroup grows before its containers' and shrinks after them. A failure is retried with the pod's next
//! sync.

use corten_container::LinuxContainerResources;

use crate::containers::observed::{Observed, Sandbox};
use crate::kubelet::Kubelet;
use crate::pod::{HostNamespace, Pod};
use crate::resources;
use crate::resources::allocation::{Resize, Step, resize};

/// The change of one container's resources.
struct Change {
    name: String,
    id: String,
    had: LinuxContainerResources,
    has: LinuxContainerResources,
}

/// Resources that could not be actuated; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResizeError {
    #[error("cannot decrease memory limits: {0}")]
    MemoryInUse(String),
    #[error("failed to update pod cgroup: {0}")]
    PodCgroup(std::io::Error),
    #[error("failed to update container {name:?}: {err}")]
    Container { name: String, err: corten_container::Error },
}

/// Actuates the allocated resources of a pod's cgroup and its running containers.
pub(crate) async fn actuate(kubelet: &Kubelet, pod: &Pod, observed: &Observed) -> Result<(), ResizeError> {
    let actuated = kubelet.resources.allocations.actuated(pod.uid());
    let before = actuated.apply_to(pod);
    let left = resize(pod, &actuated, observed);
    let (had, has) = (resources::of_pod(&before), resources::of_pod(pod));
    if left.is_nothing() && had == has {
        return Ok(());
    }
    let changes = changes(kubelet, pod, &before, &left);
    check_usage(kubelet, pod, observed, (&had, &has), &changes).await?;
    let in_pod = |limits: LinuxContainerResources| {
        kubelet.resources.cgroups.set(pod, &limits).map_err(ResizeError::PodCgroup)
    };
    for part in [memory, cpu] {
        let (had, has) = (part(&had), part(&has));
        let grows = most(&has) > most(&had);
        if has != had && grows {
            in_pod(has.clone())?;
        }
        update(kubelet, &changes, part).await?;
        if has != had && !grows {
            in_pod(has)?;
        }
    }
    kubelet.resources.allocations.set_actuated(pod.uid(), &Step::Pod);
    for change in changes {
        kubelet.resources.allocations.set_actuated(pod.uid(), &Step::Container(change.name));
    }
    Ok(())
}

fn changes(kubelet: &Kubelet, pod: &Pod, before: &Pod, left: &Resize) -> Vec<Change> {
    let of = |pod: &Pod, name: &str| {
        pod.container(name)
            .map(|container| resources::of_container(pod, container, kubelet.containers.config.memory))
    };
    let all = left.containers.iter().filter_map(|(name, id)| {
        let (had, has) = (of(before, name)?, of(pod, name)?);
        Some(Change { name: name.clone(), id: id.clone(), had, has })
    });
    all.collect()
}

/// The memory alone; fields that are not set stay as they are.
fn memory(all: &LinuxContainerResources) -> LinuxContainerResources {
    LinuxContainerResources {
        memory_limit_in_bytes: all.memory_limit_in_bytes,
        ..LinuxContainerResources::default()
    }
}

/// The cpu alone.
fn cpu(all: &LinuxContainerResources) -> LinuxContainerResources {
    LinuxContainerResources {
        cpu_shares: all.cpu_shares,
        cpu_quota: all.cpu_quota,
        cpu_period: all.cpu_period,
        ..LinuxContainerResources::default()
    }
}

/// The limits for comparison; none is the largest.
fn most(part: &LinuxContainerResources) -> (i64, i64, i64) {
    let limit = |number: i64| if number == 0 { i64::MAX } else { number };
    (limit(part.memory_limit_in_bytes), limit(part.cpu_quota), part.cpu_shares)
}

/// Updates one part of the containers' resources, those that shrink first.
async fn update(
    kubelet: &Kubelet,
    changes: &[Change],
    part: fn(&LinuxContainerResources) -> LinuxContainerResources,
) -> Result<(), ResizeError> {
    let differing = changes.iter().filter(|change| part(&change.had) != part(&change.has));
    let mut differing: Vec<&Change> = differing.collect();
    differing.sort_by_key(|change| most(&part(&change.has)) > most(&part(&change.had)));
    for change in differing {
        let done =
            kubelet.containers.runtime.update_container_resources(&change.id, &part(&change.has)).await;
        done.map_err(|err| ResizeError::Container { name: change.name.clone(), err })?;
    }
    Ok(())
}

/// Checks that a memory limit is not decreased below the present usage.
async fn check_usage(
    kubelet: &Kubelet,
    pod: &Pod,
    observed: &Observed,
    (had, has): (&LinuxContainerResources, &LinuxContainerResources),
    changes: &[Change],
) -> Result<(), ResizeError> {
    let shrinks = |had: &LinuxContainerResources, has: &LinuxContainerResources| {
        has.memory_limit_in_bytes != 0 && most(&memory(has)) < most(&memory(had))
    };
    let mut refused = Vec::new();
    if shrinks(had, has)
        && let Sandbox::Ready { id, .. } = observed.sandbox(pod.uses_host(HostNamespace::Network))
    {
        let stats = kubelet.containers.runtime.pod_sandbox_stats(&id).await;
        let used = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
        refused.extend(too_little("pod", has.memory_limit_in_bytes, used));
    }
    for change in changes.iter().filter(|change| shrinks(&change.had, &change.has)) {
        let stats = kubelet.containers.runtime.container_stats(&change.id).await;
        let used = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
        let what = format!("container {:?}", change.name);
        refused.extend(too_little(&what, change.has.memory_limit_in_bytes, used));
    }
    match refused.as_slice() {
        [] => Ok(()),
        [one] => Err(ResizeError::MemoryInUse(one.clone())),
        many => Err(ResizeError::MemoryInUse(format!("[{}]", many.join(", ")))),
    }
}

fn too_little(what: &str, limit: i64, used: Option<u64>) -> Option<String> {
    match used {
        None => Some(format!("missing {what} memory usage")),
        Some(used) if i64::try_from(used).is_ok_and(|used| used < limit) => None,
        Some(used) => {
            Some(format!("attempting to set {what} memory limit ({limit}) below current usage ({used})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_is_not_taken_away() {
        assert_eq!(too_little("pod", 100, Some(99)), None);
        let told = too_little("container \"c\"", 100, Some(100)).unwrap();
        assert_eq!(told, "attempting to set container \"c\" memory limit (100) below current usage (100)");
        assert_eq!(too_little("pod", 100, None).unwrap(), "missing pod memory usage");
    }

    #[test]
    fn no_limit_is_the_largest() {
        let limited = LinuxContainerResources { memory_limit_in_bytes: 5, ..Default::default() };
        assert!(most(&LinuxContainerResources::default()) > most(&limited));
    }
}
