//! Asks containers how they are: whether they have started, whether they live, whether they are ready.
//!
//! One task for each probe of a running container; it ends with the container. What it finds out is told to the
//! pod's worker when it changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_container::{ContainerState, ContainerStatus};
use corten_reconcile::EventKind;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::http;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::pod::{Container, Pod, Role};
use crate::worker::Orders;

#[derive(Default)]
pub(crate) struct Probes {
    followed: Mutex<HashMap<String, Followed>>,
    counts: Mutex<BTreeMap<Asked, u64>>,
}

/// What is counted: a probe of a container, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) pod_uid: String,
    pub(crate) container: String,
    pub(crate) probe: &'static str,
    pub(crate) succeeded: bool,
}

#[derive(Default)]
struct Followed {
    known: Verdict,
    tasks: Vec<AbortHandle>,
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
        for task in &self.tasks {
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
            state.insert(status.id.clone(), Followed { known: Verdict::default(), tasks });
        }
    }

    /// How often probes succeeded and failed.
    pub(crate) fn counts(&self) -> Vec<(Asked, u64)> {
        self.counts.lock().iter().map(|(asked, count)| (asked.clone(), *count)).collect()
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

fn begin(
    machine: &Arc<Machine>,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    pod_ip: &str,
    orders: &Arc<Orders>,
) -> Vec<AbortHandle> {
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
                probe: probe.clone(),
                kind,
            };
            tokio::spawn(prober.run()).abort_handle()
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
        self.machine.clock.sleep(self.seconds("initialDelaySeconds", 0)).await;
        let (mut successes, mut failures) = (0, 0);
        loop {
            if self.is_due() {
                let answer = self.ask(limit).await;
                self.count(answer.is_ok());
                match answer {
                    Ok(()) => (successes, failures) = (successes + 1, 0),
                    Err(output) => {
                        (successes, failures) = (0, failures + 1);
                        let message = format!("{} probe failed: {output}", self.kind.word());
                        let teller = self.machine.teller(&self.pod);
                        teller.of_container(&self.container, EventKind::Warning, "Unhealthy", message);
                    }
                }
                if self.conclude(successes, failures) && self.kind == Kind::Startup {
                    return;
                }
            }
            self.machine.clock.sleep(period).await;
        }
    }

    fn count(&self, succeeded: bool) {
        let asked = Asked {
            namespace: self.pod.namespace().to_owned(),
            pod: self.pod.name().to_owned(),
            pod_uid: self.pod.uid().to_owned(),
            container: self.container.name.to_string(),
            probe: self.kind.word(),
            succeeded,
        };
        *self.machine.probes.counts.lock().entry(asked).or_default() += 1;
    }

    /// The others wait for the container to have started.
    fn is_due(&self) -> bool {
        let waits = self.kind != Kind::Startup && self.container.tree.get("startupProbe").is_some();
        !waits || self.machine.probes.of(&self.id).started == Some(true)
    }

    /// Draws the conclusion if there is one to draw; true for a success.
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
        enough
    }

    async fn ask(&self, limit: Duration) -> Result<(), String> {
        if let Some(exec) = self.probe.get("exec") {
            let command = exec.items_at(&["command"]).iter().filter_map(Value::as_str).map(str::to_owned);
            let command: Vec<String> = command.collect();
            let output = self.machine.runtime.exec_sync(&self.id, &command, limit).await;
            let output = output.map_err(|e| e.to_string())?;
            let said = [output.stdout, output.stderr].concat();
            return match output.exit_code {
                0 => Ok(()),
                _ => Err(String::from_utf8_lossy(&said).into_owned()),
            };
        }
        if let Some(get) = self.probe.get("httpGet") {
            let request = http::Request::of(get, &self.container, &self.pod_ip)?;
            let answer = http::get(&request, limit).await?;
            return match answer.status {
                200..400 => Ok(()),
                status => Err(format!("HTTP probe failed with statuscode: {status}")),
            };
        }
        if let Some(socket) = self.probe.get("tcpSocket") {
            let port = http::port(socket.get("port"), &self.container)?;
            let host = socket.str_at(&["host"]).filter(|host| !host.is_empty()).unwrap_or(&self.pod_ip);
            let connecting = tokio::net::TcpStream::connect((host, port));
            return match tokio::time::timeout(limit, connecting).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(format!("dial tcp {host}:{port}: {error}")),
                Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
            };
        }
        Err("missing probe handler".to_owned())
    }
}
