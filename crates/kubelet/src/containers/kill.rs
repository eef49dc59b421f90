//! Stops containers, and pods with their sidecars and sandboxes in order.

use std::time::Duration;

use corten_container::{ContainerStatus, PodSandboxState};
use corten_reconcile::EventKind;
use futures_util::future::join_all;
use jiff::Timestamp;

use crate::containers::hooks;
use crate::containers::observed::Observed;
use crate::kubelet::Kubelet;
use crate::pod::{Container, Pod, Role};
use crate::pod_workers::actions::KillReason;

/// The shortest grace period of any container.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// The options of stopping one container.
pub(crate) struct KillOptions<'a> {
    /// The message of the event; empty for the default.
    pub(crate) message: &'a str,
    pub(crate) reason: Option<KillReason>,
    /// The grace period, instead of the pod's.
    pub(crate) grace: Option<Duration>,
}

/// Stops one container: the preStop hook first, then the stop signal, then a kill after the grace period.
pub(crate) async fn kill_container(
    kubelet: &Kubelet,
    pod: &Pod,
    status: &ContainerStatus,
    pod_ip: &str,
    options: KillOptions<'_>,
) -> corten_container::Result<()> {
    kubelet.probes.stop(&status.id, options.reason.is_some());
    let spec = pod.container(&status.metadata.name);
    let mut grace = options.grace.unwrap_or_else(|| grace_of(pod, spec, options.reason));
    if let Some(spec) = spec {
        let usual = format!("Stopping container {}", spec.name);
        let message = if options.message.is_empty() { usual } else { options.message.to_owned() };
        kubelet.api.pod_events(pod).of_container(spec, EventKind::Normal, "Killing", message);
        if let Some(hook) = spec.tree.at(&["lifecycle", "preStop"]).filter(|_| !grace.is_zero()) {
            let began = kubelet.clock.now();
            let running = hooks::run(kubelet, pod, spec, &status.id, hook, pod_ip);
            if let Some(Err(err)) = kubelet.clock.timeout(grace, running).await {
                tracing::warn!(pod = %pod.key(), container = %spec.name, %err, "preStop hook failed");
                kubelet.api.pod_events(pod).of_container(
                    spec,
                    EventKind::Warning,
                    "FailedPreStopHook",
                    "PreStopHook failed",
                );
            }
            let took = Duration::try_from(kubelet.clock.now().duration_since(began)).unwrap_or_default();
            grace = grace.saturating_sub(took);
        }
    }
    kubelet.containers.runtime.stop_container(&status.id, grace.max(MIN_GRACE)).await
}

/// The grace period of a container. A failed probe may have one of its own.
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

/// The end of a grace period. Users choose its length, and the API has no limit for it.
fn deadline(now: Timestamp, grace: Duration) -> Timestamp {
    now.checked_add(grace).unwrap_or(Timestamp::MAX)
}

/// Stops a pod: its containers together, then its sidecars from the last to the first, then its sandboxes.
pub(crate) async fn kill_pod(
    kubelet: &Kubelet,
    pod: &Pod,
    observed: &Observed,
    grace: Option<Duration>,
) -> corten_container::Result<()> {
    let pod_ip = observed.ips().first().cloned().unwrap_or_default();
    let deadline = deadline(kubelet.clock.now(), grace.unwrap_or_else(|| pod.grace()));
    let ending = |grace| KillOptions { message: "", reason: None, grace };
    let order = |name: &str| pod.containers().iter().position(|c| c.name == name && c.role == Role::Sidecar);
    let (mut sidecars, others): (Vec<_>, Vec<_>) =
        observed.running().partition(|status| order(&status.metadata.name).is_some());
    let ended = others.into_iter().map(|status| kill_container(kubelet, pod, status, &pod_ip, ending(grace)));
    for result in join_all(ended).await {
        result?;
    }
    sidecars.sort_by_key(|status| std::cmp::Reverse(order(&status.metadata.name)));
    for status in sidecars {
        let left = Duration::try_from(deadline.duration_since(kubelet.clock.now())).unwrap_or_default();
        kill_container(kubelet, pod, status, &pod_ip, ending(Some(left))).await?;
    }
    for sandbox in observed.sandboxes.iter().filter(|s| s.state == PodSandboxState::Ready) {
        kubelet.containers.runtime.stop_pod_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_grace_period_has_a_deadline() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(deadline(now, Duration::from_secs(30)), Timestamp::from_second(1_700_000_030).unwrap());
        assert_eq!(deadline(now, Duration::from_secs(i64::MAX.unsigned_abs())), Timestamp::MAX);
    }
}
