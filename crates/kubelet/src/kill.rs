//! Ends containers, and pods with all they have.

use std::time::Duration;

use corten_container::{ContainerStatus, PodSandboxState};
use corten_reconcile::EventKind;
use futures_util::future::join_all;

use crate::actions::KillReason;
use crate::hooks;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::pod::{Container, Pod, Role};

/// Nobody gets less time than this to end.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// How one container is to end.
pub(crate) struct Ending<'a> {
    /// For the event; empty for the usual one.
    pub(crate) message: &'a str,
    pub(crate) reason: Option<KillReason>,
    /// In place of what the pod says.
    pub(crate) grace: Option<Duration>,
}

/// Ends one container: its hook first, then the signal, then force.
pub(crate) async fn container(
    machine: &Machine,
    pod: &Pod,
    status: &ContainerStatus,
    pod_ip: &str,
    ending: Ending<'_>,
) -> corten_container::Result<()> {
    machine.probes.stop(&status.id, ending.reason.is_some());
    let spec = pod.container(&status.metadata.name);
    let mut grace = ending.grace.unwrap_or_else(|| grace_of(pod, spec, ending.reason));
    if let Some(spec) = spec {
        let usual = format!("Stopping container {}", spec.name);
        let message = if ending.message.is_empty() { usual } else { ending.message.to_owned() };
        machine.teller(pod).of_container(spec, EventKind::Normal, "Killing", message);
        if let Some(hook) = spec.tree.at(&["lifecycle", "preStop"]).filter(|_| !grace.is_zero()) {
            let began = machine.clock.now();
            let running = hooks::run(machine, pod, spec, &status.id, hook, pod_ip);
            if let Some(Err(why)) = machine.clock.timeout(grace, running).await {
                tracing::warn!(pod = %pod.key(), container = %spec.name, why, "preStop hook failed");
                machine.teller(pod).of_container(
                    spec,
                    EventKind::Warning,
                    "FailedPreStopHook",
                    "PreStopHook failed",
                );
            }
            let took = Duration::try_from(machine.clock.now().duration_since(began)).unwrap_or_default();
            grace = grace.saturating_sub(took);
        }
    }
    machine.runtime.stop_container(&status.id, grace.max(LEAST_GRACE)).await
}

/// How long a container has to end; a probe that ends it may have a word of its own.
fn grace_of(pod: &Pod, container: Option<&Container>, reason: Option<KillReason>) -> Duration {
    let probe = match reason {
        Some(KillReason::Liveness) => "livenessProbe",
        Some(KillReason::Startup) => "startupProbe",
        _ => return pod.grace(),
    };
    let own = container.and_then(|c| c.tree.int_at(&[probe, "terminationGracePeriodSeconds"]));
    match own.filter(|_| pod.deleted_at().is_none()).and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => Duration::from_secs(seconds),
        None => pod.grace(),
    }
}

/// Ends everything of a pod: its containers together, then its sidecars from the last to the first, then its
/// sandboxes.
pub(crate) async fn pod(
    machine: &Machine,
    pod: &Pod,
    observed: &Observed,
    grace: Option<Duration>,
) -> corten_container::Result<()> {
    let pod_ip = observed.ips().first().cloned().unwrap_or_default();
    let deadline = machine.clock.now() + grace.unwrap_or_else(|| pod.grace());
    let ending = |grace| Ending { message: "", reason: None, grace };
    let order = |name: &str| pod.containers().iter().position(|c| c.name == name && c.role == Role::Sidecar);
    let (mut sidecars, others): (Vec<_>, Vec<_>) =
        observed.running().partition(|status| order(&status.metadata.name).is_some());
    let ended = others.into_iter().map(|status| container(machine, pod, status, &pod_ip, ending(grace)));
    for result in join_all(ended).await {
        result?;
    }
    sidecars.sort_by_key(|status| std::cmp::Reverse(order(&status.metadata.name)));
    for status in sidecars {
        let left = Duration::try_from(deadline.duration_since(machine.clock.now())).unwrap_or_default();
        container(machine, pod, status, &pod_ip, ending(Some(left))).await?;
    }
    for sandbox in observed.sandboxes.iter().filter(|s| s.state == PodSandboxState::Ready) {
        machine.runtime.stop_pod_sandbox(&sandbox.id).await?;
    }
    Ok(())
}
