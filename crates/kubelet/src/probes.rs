//! Startup, liveness and readiness probes of containers.
//!
//! One task for each probe of a running container; it ends with the container. A changed result makes the pod sync.

mod grpc;
pub(crate) mod http;
mod prober;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_container::{ContainerState, ContainerStatus};
use corten_reconcile::EventKind;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::containers::observed::Observed;
use crate::kubelet::Kubelet;
use crate::pod::{Container, Pod, Role};
use crate::pod_workers::work::PodWork;
use prober::{Answer, ProbeTarget};

#[derive(Default)]
pub(crate) struct ProbeManager {
    containers: Mutex<HashMap<String, ContainerProbes>>,
    counts: Mutex<BTreeMap<ProbeLabels, ProbeCounts>>,
}

/// The labels of a probe's metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeLabels {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) pod_uid: String,
    pub(crate) container: String,
    pub(crate) probe: &'static str,
}

/// The counts and durations of a probe's results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProbeCounts {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    /// The number of probes that took as long as each of [`SECONDS`] or less. Failures are not timed.
    pub(crate) within: [u64; SECONDS.len()],
    pub(crate) seconds: f64,
}

/// The buckets of the probes' duration histogram.
pub(crate) const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl ProbeCounts {
    fn take(&mut self, answer: &Answer, took: Duration) {
        match answer {
            Answer::Success | Answer::Warning(_) => self.successful += 1,
            Answer::Unknown(_) => self.unknown += 1,
            Answer::Failure(_) => {
                self.failed += 1;
                return;
            }
        }
        let took = took.as_secs_f64();
        self.seconds += took;
        let steps = self.within.iter_mut().zip(SECONDS);
        steps.filter(|(_, most)| took <= *most).for_each(|(count, _)| *count += 1);
    }
}

struct ContainerProbes {
    pod_uid: String,
    known: ProbeResults,
    tasks: Vec<(Kind, AbortHandle)>,
}

/// The probe results of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProbeResults {
    pub(crate) started: Option<bool>,
    pub(crate) startup_failed: bool,
    pub(crate) liveness_failed: bool,
    pub(crate) ready: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    fn field(self) -> &'static str {
        match self {
            Kind::Startup => "startupProbe",
            Kind::Liveness => "livenessProbe",
            Kind::Readiness => "readinessProbe",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Liveness => "Liveness",
            Kind::Readiness => "Readiness",
        }
    }
}

impl Drop for ContainerProbes {
    fn drop(&mut self) {
        for (_, task) in &self.tasks {
            task.abort();
        }
    }
}

impl ProbeManager {
    pub(crate) fn of(&self, container_id: &str) -> ProbeResults {
        self.containers.lock().get(container_id).map(|containers| containers.known).unwrap_or_default()
    }

    /// Starts the probes of a pod's running containers, and stops those of others.
    pub(crate) fn update(&self, kubelet: &Arc<Kubelet>, pod: &Pod, observed: &Observed, work: &Arc<PodWork>) {
        let running: HashSet<&str> = observed.running().map(|status| status.id.as_str()).collect();
        let mut state = self.containers.lock();
        state.retain(|id, probes| probes.pod_uid != pod.uid() || running.contains(id.as_str()));
        for status in observed.running().filter(|status| status.state == ContainerState::Running) {
            if state.contains_key(&status.id) {
                continue;
            }
            let Some(container) = pod.container(&status.metadata.name) else { continue };
            let pod_ip =
                observed.ips().first().or(kubelet.node.addresses.first()).cloned().unwrap_or_default();
            let tasks = start_probes(kubelet, pod, container, status, &pod_ip, work);
            let known = reported_results(pod, status);
            let probes = ContainerProbes { pod_uid: pod.uid().to_owned(), known, tasks };
            state.insert(status.id.clone(), probes);
        }
    }

    /// Stops the probes of a container that is being stopped: all of them, or all but readiness.
    pub(crate) fn stop(&self, container_id: &str, everything: bool) {
        let state = self.containers.lock();
        let tasks = state.get(container_id).into_iter().flat_map(|containers| &containers.tasks);
        tasks.filter(|(kind, _)| everything || *kind != Kind::Readiness).for_each(|(_, task)| task.abort());
    }

    /// The counts of all probes.
    pub(crate) fn counts(&self) -> Vec<(ProbeLabels, ProbeCounts)> {
        self.counts.lock().iter().map(|(labels, counts)| (labels.clone(), counts.clone())).collect()
    }

    /// Forgets a pod that is gone, and stops the probes that it still has.
    pub(crate) fn forget(&self, uid: &str) {
        self.containers.lock().retain(|_, probes| probes.pod_uid != uid);
        self.counts.lock().retain(|labels, _| labels.pod_uid != uid);
    }

    /// Takes over a probe result. Returns true if it changed.
    fn set_result(&self, id: &str, change: impl FnOnce(&mut ProbeResults)) -> bool {
        let mut state = self.containers.lock();
        let Some(containers) = state.get_mut(id) else { return false };
        let before = containers.known;
        change(&mut containers.known);
        containers.known != before
    }
}

/// The results before the first probe of this process: those of the last reported status.
fn reported_results(pod: &Pod, status: &ContainerStatus) -> ProbeResults {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.into_iter().flat_map(|list| pod.tree().items_at(&["status", list]));
    let is_it = |reported: &&Value| {
        reported.str_at(&["containerID"]).and_then(|id| id.split("://").nth(1)) == Some(status.id.as_str())
    };
    let Some(reported) = all.find(is_it) else { return ProbeResults::default() };
    let started = reported.bool_at(&["started"]).filter(|started| *started);
    ProbeResults { started, ready: reported.bool_at(&["ready"]).unwrap_or(false), ..ProbeResults::default() }
}

fn start_probes(
    kubelet: &Arc<Kubelet>,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    pod_ip: &str,
    work: &Arc<PodWork>,
) -> Vec<(Kind, AbortHandle)> {
    if matches!(container.role, Role::Init | Role::Ephemeral) {
        return Vec::new();
    }
    let kinds = [Kind::Startup, Kind::Liveness, Kind::Readiness];
    let labels = kinds.into_iter().filter_map(|kind| Some((kind, container.tree.get(kind.field())?)));
    labels
        .map(|(kind, probe)| {
            let prober = Prober {
                kubelet: kubelet.clone(),
                work: work.clone(),
                pod: pod.clone(),
                container: container.clone(),
                id: status.id.clone(),
                pod_ip: pod_ip.to_owned(),
                started_at: status.started_at.unwrap_or(status.created_at),
                probe: probe.clone(),
                kind,
            };
            (kind, tokio::spawn(prober.run()).abort_handle())
        })
        .collect()
}

struct Prober {
    kubelet: Arc<Kubelet>,
    work: Arc<PodWork>,
    pod: Pod,
    container: Container,
    id: String,
    pod_ip: String,
    started_at: Timestamp,
    probe: Value,
    kind: Kind,
}

impl Prober {
    fn seconds(&self, key: &str, default: u64) -> Duration {
        let labels = self.probe.int_at(&[key]).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(labels.unwrap_or(default))
    }

    fn times(&self, key: &str, default: u32) -> u32 {
        self.probe.int_at(&[key]).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(default)
    }

    async fn run(self) {
        let period = self.seconds("periodSeconds", 10).max(Duration::from_secs(1));
        let limit = self.seconds("timeoutSeconds", 1).max(Duration::from_secs(1));
        if self.kind == Kind::Startup && self.kubelet.probes.of(&self.id).started == Some(true) {
            return;
        }
        self.kubelet.clock.sleep(self.delay()).await;
        let (mut successes, mut failures) = (0, 0);
        loop {
            if self.is_due() {
                let target = ProbeTarget {
                    kubelet: &self.kubelet,
                    pod: &self.pod,
                    container: &self.container,
                    id: &self.id,
                    pod_ip: &self.pod_ip,
                    limit,
                };
                let began = self.kubelet.clock.now();
                let answer = target.run_probe(&self.probe).await;
                self.count(&answer, self.kubelet.clock.now().duration_since(began).unsigned_abs());
                match self.record_result(answer) {
                    Some(true) => (successes, failures) = (successes + 1, 0),
                    Some(false) => (successes, failures) = (0, failures + 1),
                    None => {}
                }
                if self.apply_thresholds(successes, failures) {
                    return;
                }
            }
            self.kubelet.clock.sleep(period).await;
        }
    }

    /// The remaining initial delay: a container that runs already has spent some of it.
    fn delay(&self) -> Duration {
        let ran = self.kubelet.clock.now().duration_since(self.started_at);
        self.seconds("initialDelaySeconds", 0).saturating_sub(Duration::try_from(ran).unwrap_or_default())
    }

    /// Records the event of a result. Returns true for success, false for failure, `None` for unknown.
    fn record_result(&self, answer: Answer) -> Option<bool> {
        let word = self.kind.word();
        let (reason, message, success) = match answer {
            Answer::Success => return Some(true),
            Answer::Warning(said) => ("ProbeWarning", format!("{word} probe warning: {said}"), Some(true)),
            Answer::Failure(said) => ("Unhealthy", format!("{word} probe failed: {said}"), Some(false)),
            Answer::Unknown(said) => {
                ("Unhealthy", format!("{word} probe errored and resulted in unknown state: {said}"), None)
            }
        };
        let events = self.kubelet.api.pod_events(&self.pod);
        events.of_container(&self.container, EventKind::Warning, reason, message);
        success
    }

    fn count(&self, answer: &Answer, took: Duration) {
        let labels = ProbeLabels {
            namespace: self.pod.namespace().to_owned(),
            pod: self.pod.name().to_owned(),
            pod_uid: self.pod.uid().to_owned(),
            container: self.container.name.to_string(),
            probe: self.kind.word(),
        };
        self.kubelet.probes.counts.lock().entry(labels).or_default().take(answer, took);
    }

    /// Returns true if the probe may run: liveness and readiness wait for the startup probe.
    fn is_due(&self) -> bool {
        let waits = self.kind != Kind::Startup && self.container.tree.get("startupProbe").is_some();
        !waits || self.kubelet.probes.of(&self.id).started == Some(true)
    }

    /// Takes over a result that has reached its threshold. Returns true if the probe is done: a startup probe after
    /// its result, a liveness probe after its failure.
    fn apply_thresholds(&self, successes: u32, failures: u32) -> bool {
        let enough = successes >= self.times("successThreshold", 1);
        let too_many = failures >= self.times("failureThreshold", 3);
        if !enough && !too_many {
            return false;
        }
        let news = self.kubelet.probes.set_result(&self.id, |known| match self.kind {
            Kind::Startup => {
                known.started = Some(enough);
                known.startup_failed = too_many;
            }
            Kind::Liveness => known.liveness_failed = too_many,
            Kind::Readiness => known.ready = enough,
        });
        if news {
            self.work.sync();
        }
        self.kind == Kind::Startup || (self.kind == Kind::Liveness && too_many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pod_that_is_gone_is_no_longer_probed() {
        let probes = ProbeManager::default();
        let mut tasks = Vec::new();
        for pod in ["gone", "other"] {
            let task = tokio::spawn(std::future::pending::<()>());
            let tasks_of_container = vec![(Kind::Readiness, task.abort_handle())];
            let known = ProbeResults::default();
            let of_container = ContainerProbes { pod_uid: pod.to_owned(), known, tasks: tasks_of_container };
            probes.containers.lock().insert(format!("container of {pod}"), of_container);
            tasks.push(task);
        }
        probes.forget("gone");
        assert!(tasks.remove(0).await.is_err_and(|err| err.is_cancelled()));
        assert!(!tasks.remove(0).is_finished());
        assert_eq!(probes.containers.lock().len(), 1);
    }
}
