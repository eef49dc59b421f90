//! `corten bench kills`: kills a server while it writes, again and again on the same data, and checks what it acknowledged.
//!
//! Each connection owns some config maps and has one request under way at a time. After a kill, each of them has the value that
//! was acknowledged last, or the one that was being written; and no revision is ever used twice.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::http::{Connection, Target, write_request};
use crate::load::{self, excerpt};
use crate::process::ServerProcess;
use crate::report::Report;

const JSON: &str = "application/json";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WITHOUT: &str = "agent,scheduler,controller-manager,proxy,dns";
/// Config maps of each connection.
const OBJECTS: u64 = 8;
/// The largest number of acknowledgements before a kill.
const MOST_WRITES: u64 = 120;
/// The longest delay of a kill after the last awaited acknowledgement.
const MOST_DELAY: Duration = Duration::from_millis(4);
/// The longest time for the writes between two kills.
const ROUND_LIMIT: Duration = Duration::from_secs(60);

/// The size of the test.
#[derive(Clone, Debug)]
pub struct KillsOptions {
    pub kills: usize,
    /// Connections that send requests.
    pub connections: usize,
    /// The random numbers of a run; another run with the same seed kills after the same numbers of writes.
    pub seed: u64,
    /// The server binary to kill; this program if none is given.
    pub server_binary: Option<PathBuf>,
    /// The parent of the temporary data directory.
    pub work_dir: PathBuf,
}

impl Default for KillsOptions {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        KillsOptions {
            kills: 10_000,
            connections: 4,
            seed: now.as_nanos() as u64,
            server_binary: None,
            work_dir: env::temp_dir(),
        }
    }
}

/// Kills servers, in a temporary directory that is removed at the end. The first lost write is an error.
pub async fn kills(options: KillsOptions) -> anyhow::Result<Report> {
    ensure!(options.connections > 0, "there must be connections");
    let dir = tempfile::Builder::new()
        .prefix("corten-bench-")
        .tempdir_in(&options.work_dir)
        .with_context(|| format!("cannot create a directory in {}", options.work_dir.display()))?;
    let mut report = Report::default();
    let mut known = Known::default();
    let mut random = Random(options.seed | 1);
    let mut starts = Vec::new();
    let started = Instant::now();
    for kill in 0..=options.kills {
        let context = || format!("after kill {kill} of a run with --seed {}", options.seed);
        let server = start(&options, dir.path()).await.with_context(context)?;
        starts.push(load::microseconds(server.ready_after));
        known.check(&server.target).await.with_context(context)?;
        if kill == options.kills {
            server.stop().await?;
            break;
        }
        let after = 1 + random.below(MOST_WRITES) as usize;
        let delay = Duration::from_micros(random.below(MOST_DELAY.as_micros() as u64));
        write_and_kill(&options, server, &mut known, &mut random, after, delay)
            .await
            .with_context(context)?;
    }
    starts.sort_unstable();
    report
        .phase("kills")
        .set("kills", options.kills as f64)
        .set("writes", known.acknowledged as f64)
        .set("kept_unacknowledged", known.kept as f64)
        .set("seconds", started.elapsed().as_secs_f64())
        .set("start_p50_ms", load::percentile(&starts, 0.5) / 1e3)
        .set("start_p99_ms", load::percentile(&starts, 0.99) / 1e3);
    Ok(report)
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// A config map: its value, or `None` if it does not exist.
#[derive(Clone, Debug, Default)]
struct Object {
    acknowledged: Option<String>,
    /// The outcome of a request without a response, if there is one.
    under_way: Option<Option<String>>,
}

/// The knowledge from all rounds.
#[derive(Default)]
struct Known {
    objects: BTreeMap<String, Object>,
    /// The highest revision ever seen.
    revision: u64,
    /// The number of acknowledged writes, and of writes that were kept although their response was lost.
    acknowledged: u64,
    kept: u64,
}

impl Known {
    /// Compares a server that has just started with what is known.
    async fn check(&mut self, target: &Target) -> anyhow::Result<()> {
        let mut request = Vec::new();
        write_request(&mut request, &target.host, "GET", format_args!("{CONFIG_MAPS}"), None);
        let (status, body) = load::once(target, &request).await?;
        ensure!(status == 200, "list: {status}: {}", excerpt(&body));
        let list: Value = serde_json::from_slice(&body).context("the list is not JSON")?;
        let revision = revision_of(&list)?;
        ensure!(revision >= self.revision, "the server is at revision {revision}, after {}", self.revision);
        self.revision = revision;
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found: BTreeMap<&str, &str> = items
            .iter()
            .filter_map(|item| Some((item["metadata"]["name"].as_str()?, item["data"]["value"].as_str()?)))
            .collect();
        for (name, object) in &mut self.objects {
            let value = found.get(name.as_str()).map(|value| (*value).to_owned());
            if object
                .under_way
                .take()
                .is_some_and(|under_way| under_way == value && value != object.acknowledged)
            {
                self.kept += 1;
                object.acknowledged = value;
            } else if value != object.acknowledged {
                let number =
                    |value: &Option<String>| value.as_deref().map(|v| v.split('x').next().map(str::to_owned));
                bail!(
                    "{name} has value {:?}, but {:?} was acknowledged",
                    number(&value),
                    number(&object.acknowledged)
                );
            }
        }
        Ok(())
    }
}

fn revision_of(object: &Value) -> anyhow::Result<u64> {
    let text = object["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    text.parse().context("resourceVersion is not a number")
}

/// Writes until some writes are acknowledged, and then kills the server.
async fn write_and_kill(
    options: &KillsOptions,
    server: ServerProcess,
    known: &mut Known,
    random: &mut Random,
    after: usize,
    delay: Duration,
) -> anyhow::Result<()> {
    let progress = Arc::new(Progress { count: AtomicUsize::new(0), after, reached: Notify::new() });
    let mut writers = JoinSet::new();
    for connection in 0..options.connections {
        let objects = (0..OBJECTS)
            .map(|object| format!("kills-{connection}-{object}"))
            .map(|name| (name.clone(), known.objects.remove(&name).unwrap_or_default()))
            .collect();
        let writer = Writer {
            objects,
            random: Random(random.below(u64::MAX >> 1) | 1),
            progress: Arc::clone(&progress),
            since: known.revision,
            revisions: Vec::new(),
        };
        writers.spawn(writer.run(Arc::clone(&server.target)));
    }
    let reached = tokio::time::timeout(ROUND_LIMIT, progress.reached.notified()).await;
    tokio::time::sleep(delay).await;
    server.kill().await?;
    reached.context("the server does not acknowledge writes")?;
    let mut revisions = Vec::new();
    while let Some(writer) = writers.join_next().await {
        let writer = writer.context("a writer panicked")??;
        known.objects.extend(writer.objects);
        revisions.extend(writer.revisions);
    }
    let count = revisions.len();
    known.acknowledged += count as u64;
    revisions.sort_unstable();
    revisions.dedup();
    ensure!(revisions.len() == count, "two writes have the same revision");
    known.revision = revisions.last().copied().unwrap_or(0).max(known.revision);
    Ok(())
}

/// The acknowledgements of a round.
struct Progress {
    count: AtomicUsize,
    after: usize,
    reached: Notify,
}

struct Writer {
    objects: Vec<(String, Object)>,
    random: Random,
    progress: Arc<Progress>,
    /// All revisions of this round are later.
    since: u64,
    revisions: Vec<u64>,
}

impl Writer {
    /// Writes until the server dies.
    async fn run(mut self, target: Arc<Target>) -> anyhow::Result<Writer> {
        let mut connection = Connection::open(&target).await.context("cannot connect to the server")?;
        let (mut request, mut body) = (Vec::new(), Vec::new());
        loop {
            let index = self.random.below(self.objects.len() as u64) as usize;
            let next = self.next_value(index);
            let (name, object) = &mut self.objects[index];
            request.clear();
            write(&mut request, &target.host, name, object, next.as_deref());
            object.under_way = Some(next.clone());
            body.clear();
            let response = connection.request(&request, &mut |data| body.extend_from_slice(data)).await;
            let Ok(status) = response else { return Ok(self) };
            ensure!(matches!(status, 200..300), "a write of {name}: {status}: {}", excerpt(&body));
            object.under_way = None;
            object.acknowledged = next;
            // The response to a deletion is a Status.
            if let Ok(revision) =
                serde_json::from_slice(&body).map_err(Into::into).and_then(|o| revision_of(&o))
            {
                ensure!(revision > self.since, "revision {revision} was used before");
                self.revisions.push(revision);
            }
            if self.progress.count.fetch_add(1, Ordering::Relaxed) + 1 == self.progress.after {
                self.progress.reached.notify_one();
            }
            if !connection.is_reusable() {
                connection = match Connection::open(&target).await {
                    Ok(connection) => connection,
                    Err(_) => return Ok(self),
                };
            }
        }
    }

    /// A value that no object had before; `None` for a deletion.
    fn next_value(&mut self, index: usize) -> Option<String> {
        if self.objects[index].1.acknowledged.is_some() && self.random.below(6) == 0 {
            return None;
        }
        let size = [0, 200, 3_000, 30_000][self.random.below(4) as usize];
        Some(format!("{}.{}", self.random.below(u64::MAX >> 1), "x".repeat(size)))
    }
}

/// Appends the request that gives a config map a value, or deletes it.
fn write(request: &mut Vec<u8>, host: &str, name: &str, object: &Object, value: Option<&str>) {
    let (method, path) = match (&object.acknowledged, value) {
        (_, None) => ("DELETE", format!("{CONFIG_MAPS}/{name}")),
        (Some(_), Some(_)) => ("PUT", format!("{CONFIG_MAPS}/{name}")),
        (None, Some(_)) => ("POST", CONFIG_MAPS.to_owned()),
    };
    let body = match value {
        None => "{}".to_owned(),
        Some(value) => format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
        ),
    };
    write_request(request, host, method, format_args!("{path}"), Some((JSON, body.as_bytes())));
}

async fn start(options: &KillsOptions, dir: &Path) -> anyhow::Result<ServerProcess> {
    let binary = match &options.server_binary {
        Some(binary) => binary.clone(),
        None => env::current_exe().context("cannot find this program")?,
    };
    let (kubeconfig, data_dir) = (dir.join("kubeconfig"), dir.join("data"));
    let mut arguments: Vec<OsString> = vec!["server".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(["--bind-address", "127.0.0.1", "--secure-port", "0"].map(OsString::from));
    arguments.extend(["--disable", WITHOUT, "--write-kubeconfig"].map(OsString::from));
    arguments.push(kubeconfig.clone().into());
    ServerProcess::start(&binary, &arguments, &kubeconfig, "/readyz", &dir.join("server.log")).await
}
