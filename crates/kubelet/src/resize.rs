//! Carries out what pods were newly given while their containers run.
//!
//! What grows has room first: a pod's cgroup before its containers', and what shrinks after them. What could not be done is
//! tried again with the pod's next turn.

use corten_container::LinuxContainerResources;

use crate::allocation::{Resize, Step, resize};
use crate::machine::Machine;
use crate::observed::{Observed, Sandbox};
use crate::pod::{HostNamespace, Pod};
use crate::resources;

/// One container's way from what it has to what it was given.
struct Change {
    name: String,
    id: String,
    had: LinuxContainerResources,
    has: LinuxContainerResources,
}

/// Gives a pod's cgroup and its running containers what the pod was given.
pub(crate) async fn carry_out(machine: &Machine, pod: &Pod, observed: &Observed) -> Result<(), String> {
    let actuated = machine.allocations.actuated(pod.uid());
    let before = actuated.in_place(pod);
    let left = resize(pod, &actuated, observed);
    let (had, has) = (resources::of_pod(&before), resources::of_pod(pod));
    if left.is_nothing() && had == has {
        return Ok(());
    }
    let changes = changes(machine, pod, &before, &left);
    check_usage(machine, pod, observed, (&had, &has), &changes).await?;
    let in_pod = |limits: LinuxContainerResources| {
        machine.cgroups.set(pod, &limits).map_err(|error| format!("failed to update pod cgroup: {error}"))
    };
    for part in [memory, cpu] {
        let (had, has) = (part(&had), part(&has));
        let grows = most(&has) > most(&had);
        if has != had && grows {
            in_pod(has.clone())?;
        }
        update(machine, &changes, part).await?;
        if has != had && !grows {
            in_pod(has)?;
        }
    }
    machine.allocations.carried_out(pod.uid(), &Step::Pod);
    for change in changes {
        machine.allocations.carried_out(pod.uid(), &Step::Container(change.name));
    }
    Ok(())
}

fn changes(machine: &Machine, pod: &Pod, before: &Pod, left: &Resize) -> Vec<Change> {
    let of = |pod: &Pod, name: &str| {
        pod.container(name).map(|container| resources::of_container(pod, container, machine.config.memory))
    };
    let all = left.containers.iter().filter_map(|(name, id)| {
        let (had, has) = (of(before, name)?, of(pod, name)?);
        Some(Change { name: name.clone(), id: id.clone(), had, has })
    });
    all.collect()
}

/// Memory alone: what is not set stays as it is.
fn memory(all: &LinuxContainerResources) -> LinuxContainerResources {
    LinuxContainerResources {
        memory_limit_in_bytes: all.memory_limit_in_bytes,
        ..LinuxContainerResources::default()
    }
}

/// Cpu alone.
fn cpu(all: &LinuxContainerResources) -> LinuxContainerResources {
    LinuxContainerResources {
        cpu_shares: all.cpu_shares,
        cpu_quota: all.cpu_quota,
        cpu_period: all.cpu_period,
        ..LinuxContainerResources::default()
    }
}

/// What somebody may use at most; without a limit, everything.
fn most(part: &LinuxContainerResources) -> (i64, i64, i64) {
    let limit = |number: i64| if number == 0 { i64::MAX } else { number };
    (limit(part.memory_limit_in_bytes), limit(part.cpu_quota), part.cpu_shares)
}

/// Updates one part of containers: those that get less first.
async fn update(
    machine: &Machine,
    changes: &[Change],
    part: fn(&LinuxContainerResources) -> LinuxContainerResources,
) -> Result<(), String> {
    let differing = changes.iter().filter(|change| part(&change.had) != part(&change.has));
    let mut differing: Vec<&Change> = differing.collect();
    differing.sort_by_key(|change| most(&part(&change.has)) > most(&part(&change.had)));
    for change in differing {
        let done = machine.runtime.update_container_resources(&change.id, &part(&change.has)).await;
        done.map_err(|error| format!("failed to update container {:?}: {error}", change.name))?;
    }
    Ok(())
}

/// Memory that is in use is not taken away.
async fn check_usage(
    machine: &Machine,
    pod: &Pod,
    observed: &Observed,
    (had, has): (&LinuxContainerResources, &LinuxContainerResources),
    changes: &[Change],
) -> Result<(), String> {
    let shrinks = |had: &LinuxContainerResources, has: &LinuxContainerResources| {
        has.memory_limit_in_bytes != 0 && most(&memory(has)) < most(&memory(had))
    };
    let mut refused = Vec::new();
    if shrinks(had, has)
        && let Sandbox::Ready { id, .. } = observed.sandbox(pod.uses_host(HostNamespace::Network))
    {
        let stats = machine.runtime.pod_sandbox_stats(&id).await;
        let used = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
        refused.extend(too_little("pod", has.memory_limit_in_bytes, used));
    }
    for change in changes.iter().filter(|change| shrinks(&change.had, &change.has)) {
        let stats = machine.runtime.container_stats(&change.id).await;
        let used = stats.ok().and_then(|stats| stats.memory).and_then(|memory| memory.usage_bytes);
        let what = format!("container {:?}", change.name);
        refused.extend(too_little(&what, change.has.memory_limit_in_bytes, used));
    }
    match refused.as_slice() {
        [] => Ok(()),
        [one] => Err(format!("cannot decrease memory limits: {one}")),
        many => Err(format!("cannot decrease memory limits: [{}]", many.join(", "))),
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
    fn what_is_in_use_is_too_little() {
        assert_eq!(too_little("pod", 100, Some(99)), None);
        let told = too_little("container \"c\"", 100, Some(100)).unwrap();
        assert_eq!(told, "attempting to set container \"c\" memory limit (100) below current usage (100)");
        assert_eq!(too_little("pod", 100, None).unwrap(), "missing pod memory usage");
    }

    #[test]
    fn no_limit_is_the_most() {
        let limited = LinuxContainerResources { memory_limit_in_bytes: 5, ..Default::default() };
        assert!(most(&LinuxContainerResources::default()) > most(&limited));
    }
}
