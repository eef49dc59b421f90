//! Asks containers how they are: whether they have started, whether they live, whether they are ready.
//!
//! One task for each probe of a running container; it ends with the container. What it finds out is told to the
//! pod's worker when it changes.

mod ask;
mod grpc;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_container::{ContainerState, ContainerStatus};
use corten_reconcile::EventKind;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::machine::Machine;
use crate::observed::Observed;
use crate::pod::{Container, Pod, Role};
use crate::worker::Orders;
use ask::{Answer, Asking};

#[derive(Default)]
pub(crate) struct Probes {
    followed: Mutex<HashMap<String, Followed>>,
    counts: Mutex<BTreeMap<Asked, Tally>>,
}

/// What is counted: a probe of a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) pod_uid: String,
    pub(crate) container: String,
    pub(crate) probe: &'static str,
}

/// How often a probe was answered, and how long that took.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    /// How many answers took as long as each of [`SECONDS`] or less. Failures are not timed.
    pub(crate) within: [u64; SECONDS.len()],
    pub(crate) seconds: f64,
}

/// How long answers may take, in steps.
pub(crate) const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Tally {
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

#[derive(Default)]
struct Followed {
    known: Verdict,
    tasks: Vec<(Kind, AbortHandle)>,
}

/// What probes have found out about a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
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

impl Drop for Followed {
    fn drop(&mut self) {
        for (_, task) in &self.tasks {
            task.abort();
        }
    }
}

impl Probes {
    pub(crate) fn of(&self, container_id: &str) -> Verdict {
        self.followed.lock().get(container_id).map(|followed| followed.known).unwrap_or_default()
    }

    /// Probes the containers of a pod that run, and no others.
    pub(crate) fn follow(
        &self,
        machine: &Arc<Machine>,
        pod: &Pod,
        observed: &Observed,
        orders: &Arc<Orders>,
    ) {
        let running: HashSet<&str> = observed.running().map(|status| status.id.as_str()).collect();
        let gone = observed.containers.iter().map(|found| found.status.id.as_str());
        let mut state = self.followed.lock();
        for id in gone.filter(|id| !running.contains(id)) {
            state.remove(id);
        }
        for status in observed.running().filter(|status| status.state == ContainerState::Running) {
            if state.contains_key(&status.id) {
                continue;
            }
            let Some(container) = pod.container(&status.metadata.name) else { continue };
            let pod_ip = observed.ips().first().or(machine.host_ips.first()).cloned().unwrap_or_default();
            let tasks = begin(machine, pod, container, status, &pod_ip, orders);
            state.insert(status.id.clone(), Followed { known: told(pod, status), tasks });
        }
    }

    /// Stops asking a container that is being ended: anything at all, or only what would have it ended.
    pub(crate) fn stop(&self, container_id: &str, everything: bool) {
        let state = self.followed.lock();
        let tasks = state.get(container_id).into_iter().flat_map(|followed| &followed.tasks);
        tasks.filter(|(kind, _)| everything || *kind != Kind::Readiness).for_each(|(_, task)| task.abort());
    }

    /// How probes were answered.
    pub(crate) fn counts(&self) -> Vec<(Asked, Tally)> {
        self.counts.lock().iter().map(|(asked, tally)| (asked.clone(), tally.clone())).collect()
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.counts.lock().retain(|asked, _| asked.pod_uid != uid);
    }

    /// Takes in what a probe found; true if that is news.
    fn learn(&self, id: &str, change: impl FnOnce(&mut Verdict)) -> bool {
        let mut state = self.followed.lock();
        let Some(followed) = state.get_mut(id) else { return false };
        let before = followed.known;
        change(&mut followed.known);
        followed.known != before
    }
}

/// What is known of a container that others asked before: what was last told of it.
fn told(pod: &Pod, status: &ContainerStatus) -> Verdict {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.into_iter().flat_map(|list| pod.tree().items_at(&["status", list]));
    let is_it = |told: &&Value| {
        told.str_at(&["containerID"]).and_then(|id| id.split("://").nth(1)) == Some(status.id.as_str())
    };
    let Some(told) = all.find(is_it) else { return Verdict::default() };
    let started = told.bool_at(&["started"]).filter(|started| *started);
    Verdict { started, ready: told.bool_at(&["ready"]).unwrap_or(false), ..Verdict::default() }
}

fn begin(
    machine: &Arc<Machine>,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    pod_ip: &str,
    orders: &Arc<Orders>,
) -> Vec<(Kind, AbortHandle)> {
    if matches!(container.role, Role::Init | Role::Ephemeral) {
        return Vec::new();
    }
    let kinds = [Kind::Startup, Kind::Liveness, Kind::Readiness];
    let asked = kinds.into_iter().filter_map(|kind| Some((kind, container.tree.get(kind.field())?)));
    asked
        .map(|(kind, probe)| {
            let prober = Prober {
                machine: machine.clone(),
                orders: orders.clone(),
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
    machine: Arc<Machine>,
    orders: Arc<Orders>,
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
        let asked = self.probe.int_at(&[key]).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(asked.unwrap_or(default))
    }

    fn times(&self, key: &str, default: u32) -> u32 {
        self.probe.int_at(&[key]).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(default)
    }

    async fn run(self) {
        let period = self.seconds("periodSeconds", 10).max(Duration::from_secs(1));
        let limit = self.seconds("timeoutSeconds", 1).max(Duration::from_secs(1));
        if self.kind == Kind::Startup && self.machine.probes.of(&self.id).started == Some(true) {
            return;
        }
        self.machine.clock.sleep(self.delay()).await;
        let (mut successes, mut failures) = (0, 0);
        loop {
            if self.is_due() {
                let asking = Asking {
                    machine: &self.machine,
                    pod: &self.pod,
                    container: &self.container,
                    id: &self.id,
                    pod_ip: &self.pod_ip,
                    limit,
                };
                let began = self.machine.clock.now();
                let answer = asking.ask(&self.probe).await;
                self.count(&answer, self.machine.clock.now().duration_since(began).unsigned_abs());
                match self.tell(answer) {
                    Some(true) => (successes, failures) = (successes + 1, 0),
                    Some(false) => (successes, failures) = (0, failures + 1),
                    None => {}
                }
                if self.conclude(successes, failures) {
                    return;
                }
            }
            self.machine.clock.sleep(period).await;
        }
    }

    /// How long the first question waits: a container that has been running for a while has waited.
    fn delay(&self) -> Duration {
        let ran = self.machine.clock.now().duration_since(self.started_at);
        self.seconds("initialDelaySeconds", 0).saturating_sub(Duration::try_from(ran).unwrap_or_default())
    }

    /// Tells what there is to tell of an answer; whether it is a success, if it is anything.
    fn tell(&self, answer: Answer) -> Option<bool> {
        let word = self.kind.word();
        let (reason, message, success) = match answer {
            Answer::Success => return Some(true),
            Answer::Warning(said) => ("ProbeWarning", format!("{word} probe warning: {said}"), Some(true)),
            Answer::Failure(said) => ("Unhealthy", format!("{word} probe failed: {said}"), Some(false)),
            Answer::Unknown(said) => {
                ("Unhealthy", format!("{word} probe errored and resulted in unknown state: {said}"), None)
            }
        };
        let teller = self.machine.teller(&self.pod);
        teller.of_container(&self.container, EventKind::Warning, reason, message);
        success
    }

    fn count(&self, answer: &Answer, took: Duration) {
        let asked = Asked {
            namespace: self.pod.namespace().to_owned(),
            pod: self.pod.name().to_owned(),
            pod_uid: self.pod.uid().to_owned(),
            container: self.container.name.to_string(),
            probe: self.kind.word(),
        };
        self.machine.probes.counts.lock().entry(asked).or_default().take(answer, took);
    }

    /// The others wait for the container to have started.
    fn is_due(&self) -> bool {
        let waits = self.kind != Kind::Startup && self.container.tree.get("startupProbe").is_some();
        !waits || self.machine.probes.of(&self.id).started == Some(true)
    }

    /// Draws the conclusion if there is one to draw; true if there is nothing more to ask: whoever failed to live is
    /// going to be ended, and whether somebody has started is asked only once.
    fn conclude(&self, successes: u32, failures: u32) -> bool {
        let enough = successes >= self.times("successThreshold", 1);
        let too_many = failures >= self.times("failureThreshold", 3);
        if !enough && !too_many {
            return false;
        }
        let news = self.machine.probes.learn(&self.id, |known| match self.kind {
            Kind::Startup => {
                known.started = Some(enough);
                known.startup_failed = too_many;
            }
            Kind::Liveness => known.liveness_failed = too_many,
            Kind::Readiness => known.ready = enough,
        });
        if news {
            self.orders.changed.notify_one();
        }
        self.kind == Kind::Startup || (self.kind == Kind::Liveness && too_many)
    }
}
