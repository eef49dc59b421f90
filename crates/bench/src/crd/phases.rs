//! The phases of `corten bench crd`, in the order in which they run.

use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use corten_api::{Value, json, value};
use memchr::memmem;
use tokio::process::Command;

use super::Run;
use super::manifests::{self, NAMESPACE};
use crate::events::resource_version;
use crate::http::{Connection, write_request, write_request_accepting};
use crate::load::{self, Job, Outcome, WriteRequest, excerpt, microseconds, percentile};
use crate::objects::{describe, measure_job};
use crate::usage::{self, Meter};
use crate::watch::{WatchPlan, Watchers};
use crate::watching::{describe_watching, drain_limit};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The definition whose objects are put under load.
const LOADED: usize = 1;
/// The deadline until a definition is served or published.
const VISIBLE_LIMIT: Duration = Duration::from_secs(120);
/// Within this time after a phase, a server returns freed memory to the system.
pub(super) const SETTLE: Duration = Duration::from_secs(12);
/// Times a document is requested.
const READS: usize = 5;

pub(super) async fn run(run: &mut Run<'_>) -> anyhow::Result<()> {
    let namespace = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": (NAMESPACE)}});
    post(run, "/api/v1/namespaces", &json::write_to_string(&namespace)).await?;
    let start = run.record_memory("start_mb").await?;
    define(run).await?;
    let defined = run.record_memory("defined_mb").await?;
    let each = (defined - start) * 1e3 / run.options.definitions as f64;
    run.report.phase("memory").set("each_definition_kb", each);
    define_late(run).await?;
    discover(run).await?;
    list_with_kubectl(run).await?;
    read_openapi(run).await?;
    run.record_memory("openapi_mb").await?;
    use_each(run).await?;
    let used = run.record_memory("used_mb").await?;
    let each = (used - start) * 1e3 / run.options.definitions as f64;
    run.report.phase("memory").set("each_used_kb", each);
    idle(run).await?;
    create(run).await?;
    get(run).await?;
    list(run).await?;
    update(run).await?;
    patch_status(run).await?;
    run.record_memory("objects_mb").await?;
    let peak: f64 = run.pids.iter().map(|pid| usage::peak_resident_mb(*pid)).sum::<anyhow::Result<f64>>()?;
    run.report.phase("memory").set("peak_mb", peak);
    Ok(())
}

/// Creates all definitions, then waits until each is served.
async fn define(run: &mut Run<'_>) -> anyhow::Result<()> {
    let bodies: Vec<String> = (0..run.options.definitions).map(|i| run.manifests.definition(i)).collect();
    let (host, total) = (run.target.host.clone(), bodies.len());
    let request: WriteRequest = Box::new(move |index, out| {
        write_request(
            out,
            &host,
            "POST",
            format_args!("{DEFINITIONS}"),
            Some((JSON, bodies[index].as_bytes())),
        );
    });
    let outcome = measure(run, "define", run.options.connections, total, request).await?;
    ensure!(outcome.errors == 0, "cannot create definitions: {:?}", outcome.first_error);
    let created = Instant::now();
    let mut connection = Connection::open(&run.target).await?;
    for index in 0..total {
        served(run, &mut connection, index, created).await?;
    }
    run.report.phase("define").set("all_served_after_ms", created.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Creates definitions one by one while all others exist: the time until each is served, and until it is published.
async fn define_late(run: &mut Run<'_>) -> anyhow::Result<()> {
    let mut connection = Connection::open(&run.target).await?;
    let (mut creates, mut serving, mut publishing) = (Vec::new(), Vec::new(), Vec::new());
    let first = run.options.definitions;
    let meter = Meter::start(&run.pids)?;
    for index in first..first + run.options.late_definitions {
        let sent = Instant::now();
        post_on(run, &mut connection, DEFINITIONS, &run.manifests.definition(index)).await?;
        let created = Instant::now();
        creates.push(microseconds(created - sent));
        served(run, &mut connection, index, created).await?;
        serving.push(microseconds(created.elapsed()));
        let document = format!("/openapi/v3/apis/{}", manifests::group_version(index));
        let kind = format!("\"kind\":\"{}\"", manifests::kind(index));
        until(run, &mut connection, &document, created, |status, body| {
            status == 200 && memmem::find(body, kind.as_bytes()).is_some()
        })
        .await
        .context("the definition is not published")?;
        publishing.push(microseconds(created.elapsed()));
    }
    let count = creates.len();
    let phase = run.report.phase("late");
    for latencies in [&mut creates, &mut serving, &mut publishing] {
        latencies.sort_unstable();
    }
    phase.set("count", count as f64).set("create_p50_ms", percentile(&creates, 0.5) / 1e3);
    phase.set("served_p50_ms", percentile(&serving, 0.5) / 1e3);
    phase.set("served_max_ms", percentile(&serving, 1.0) / 1e3);
    phase.set("published_p50_ms", percentile(&publishing, 0.5) / 1e3);
    phase.set("published_max_ms", percentile(&publishing, 1.0) / 1e3);
    let seconds = meter.finish(phase)?;
    phase.set("server_cpu_each_us", seconds * 1e6 / count.max(1) as f64);
    Ok(())
}

/// Reads discovery as clients do: all groups in one document, or one document for each group version.
async fn discover(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (time, size) = read(run, "/apis", AGGREGATED).await?;
    run.report.phase("discovery").set("aggregated_ms", time).set("aggregated_mb", size);
    let mut connection = Connection::open(&run.target).await?;
    let started = Instant::now();
    let (_, body) = get_on(run, &mut connection, "/apis", JSON).await?;
    let groups = json::parse(&body).context("the list of groups is not JSON")?;
    let mut documents = 0;
    for group in groups.items_at(&["groups"]) {
        for version in group.items_at(&["versions"]) {
            let path = format!("/apis/{}", version.str_at(&["groupVersion"]).unwrap_or_default());
            let (status, _) = get_on(run, &mut connection, &path, JSON).await?;
            ensure!(status == 200, "cannot read {path}: {status}");
            documents += 1;
        }
    }
    let took = started.elapsed().as_secs_f64() * 1e3;
    run.report.phase("discovery").set("legacy_ms", took).set("legacy_documents", f64::from(documents));
    Ok(())
}

/// Lists all resources with kubectl, without anything in its cache.
async fn list_with_kubectl(run: &mut Run<'_>) -> anyhow::Result<()> {
    let Some(kubectl) = &run.options.kubectl else { return Ok(()) };
    let cache = run.dir.join("kubectl-cache");
    let started = Instant::now();
    let output = Command::new(kubectl)
        .arg("api-resources")
        .arg("--kubeconfig")
        .arg(&run.kubeconfig)
        .arg("--cache-dir")
        .arg(&cache)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot start {}", kubectl.display()))?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    ensure!(output.status.success(), "kubectl failed: {}", String::from_utf8_lossy(&output.stderr));
    let lines = memchr::memchr_iter(b'\n', &output.stdout).count();
    run.report.phase("kubectl").set("api_resources_ms", took).set("lines", lines as f64);
    Ok(())
}

async fn read_openapi(run: &mut Run<'_>) -> anyhow::Result<()> {
    let document = format!("/openapi/v3/apis/{}", manifests::group_version(LOADED));
    for (path, time_measure, size_measure) in [
        ("/openapi/v3", "v3_index_ms", "v3_index_mb"),
        (document.as_str(), "v3_document_ms", "v3_document_mb"),
        ("/openapi/v2", "v2_ms", "v2_mb"),
    ] {
        let (time, size) = read(run, path, JSON).await?;
        run.report.phase("openapi").set(time_measure, time).set(size_measure, size);
    }
    Ok(())
}

/// Creates one object of each definition: each type is compiled.
async fn use_each(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (host, manifests) = (run.target.host.clone(), Arc::clone(&run.manifests));
    let request: WriteRequest = Box::new(move |index, out| {
        let body = manifests.object(index, "first");
        let path = manifests::objects(index);
        write_request(out, &host, "POST", format_args!("{path}"), Some((JSON, body.as_bytes())));
    });
    measure(run, "use", run.options.connections, run.options.definitions, request).await?;
    Ok(())
}

/// Sends nothing for a while: unused types are dropped.
async fn idle(run: &mut Run<'_>) -> anyhow::Result<()> {
    let seconds = run.options.idle_seconds;
    if seconds == 0 {
        return Ok(());
    }
    let before: f64 = cpu(run)?;
    // The measurement is the time that passes.
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let used = cpu(run)? - before;
    run.report.phase("idle").set("seconds", seconds.into()).set("server_cpu_s", used);
    run.record_memory("idle_mb").await?;
    Ok(())
}

fn cpu(run: &Run<'_>) -> anyhow::Result<f64> {
    run.pids.iter().map(|pid| usage::fine_cpu_seconds(*pid)).sum()
}

async fn create(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (host, manifests, path) =
        (run.target.host.clone(), Arc::clone(&run.manifests), manifests::objects(LOADED));
    let template = manifests.object(LOADED, "NAME");
    let (before, after) = template.split_once("NAME").context("the object has no name")?;
    let (before, after) = (before.to_owned(), after.to_owned());
    let request: WriteRequest = Box::new(move |index, out| {
        let body = format!("{before}{}{after}", manifests::object_name(index));
        write_request(out, &host, "POST", format_args!("{path}"), Some((JSON, body.as_bytes())));
    });
    measure(run, "create", run.options.connections, run.options.objects, request).await?;
    Ok(())
}

async fn get(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (host, path, objects) = (run.target.host.clone(), manifests::objects(LOADED), run.options.objects);
    let request: WriteRequest = Box::new(move |index, out| {
        let name = manifests::object_name(index % objects);
        write_request(out, &host, "GET", format_args!("{path}/{name}"), None);
    });
    measure(run, "get", run.options.connections, run.options.objects, request).await?;
    Ok(())
}

/// Lists all objects in one response, repeatedly on one connection.
async fn list(run: &mut Run<'_>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    write_request(&mut text, &run.target.host, "GET", format_args!("{}", manifests::objects(LOADED)), None);
    let request: WriteRequest = Box::new(move |_, out| out.extend_from_slice(&text));
    let outcome = measure(run, "list", 1, run.options.lists, request).await?;
    let lists = run.options.lists.max(1) as f64;
    let phase = run.report.phase("list");
    phase.set("mb_per_s", outcome.bytes as f64 / 1e6 / outcome.seconds.max(1e-9));
    phase.set("size_mb", outcome.bytes as f64 / 1e6 / lists);
    Ok(())
}

/// Replaces every object with its current state and one changed field.
async fn update(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (host, path) = (run.target.host.clone(), manifests::objects(LOADED));
    let (sender, bodies) = mpsc::channel();
    let reading = Job {
        connections: run.options.connections,
        total: run.options.objects,
        request: Box::new(move |index, out| {
            let name = manifests::object_name(index);
            write_request(out, &host, "GET", format_args!("{path}/{name}"), None);
        }),
        // The receiver outlives the job.
        observe: Some(Box::new(move |index, body, _| drop(sender.send((index, body.to_vec()))))),
    };
    load::run(&run.target, reading).await?;
    let mut changed = Vec::with_capacity(run.options.objects);
    for (index, body) in bodies.try_iter() {
        let mut object = json::parse(&body).context("the server's object is not JSON")?;
        object.set(&["spec", "replicas"], 5);
        changed.push((manifests::object_name(index), json::write_to_string(&object)));
    }
    let (host, path, total) = (run.target.host.clone(), manifests::objects(LOADED), changed.len());
    let request: WriteRequest = Box::new(move |index, out| {
        let (name, body) = &changed[index];
        write_request(out, &host, "PUT", format_args!("{path}/{name}"), Some((JSON, body.as_bytes())));
    });
    measure(run, "update", run.options.connections, total, request).await?;
    Ok(())
}

/// Patches the status of objects in a burst, with many watchers.
async fn patch_status(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (path, patches, objects) = (manifests::objects(LOADED), run.options.patches, run.options.objects);
    let mut connection = Connection::open(&run.target).await?;
    let (_, list) = get_on(run, &mut connection, &format!("{path}?limit=1"), JSON).await?;
    let list = json::parse(&list).context("the server's list is not JSON")?;
    let version = list.str_at(&["metadata", "resourceVersion"]).context("the list has no resourceVersion")?;
    let watched_path = format!("{path}?watch=true&resourceVersion={version}");
    let plan = WatchPlan {
        path: &watched_path,
        watchers: run.options.watchers,
        expected: patches as u64,
        sample_every: 10,
    };
    let watchers = Watchers::open(&run.target, plan).await?;
    let host = run.target.host.clone();
    let (sender, acknowledgements) = mpsc::channel();
    let job = Job {
        connections: run.options.connections,
        total: patches,
        request: Box::new(move |index, out| {
            let body = json::write_to_string(&status(index));
            let name = manifests::object_name(index % objects);
            let content = Some((MERGE_PATCH, body.as_bytes()));
            write_request(out, &host, "PATCH", format_args!("{path}/{name}/status"), content);
        }),
        observe: Some(Box::new(move |_, body, at| {
            if let Some(version) = resource_version(body) {
                // The receiver outlives the job.
                let _ = sender.send((version, at));
            }
        })),
    };
    let meter = Meter::start(&run.pids)?;
    let outcome = load::run(&run.target, job).await.context("phase watch")?;
    let started = Instant::now() - Duration::from_secs_f64(outcome.seconds);
    let watched = watchers.finish(drain_limit(&outcome)).await;
    let phase = run.report.phase("watch");
    describe(phase, &outcome);
    meter.finish(phase)?;
    describe_watching(phase, started, &outcome, &watched, &acknowledgements.try_iter().collect());
    Ok(())
}

/// A status patch of an operator. No two are equal, because a patch without a change has no event.
fn status(index: usize) -> Value {
    value!({"status": {
        "phase": "Running", "observedGeneration": 1, "replicas": 3, "readyReplicas": 3,
        "currentPrimary": "orders-0", "message": (format!("checked {index} times")),
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "AllInstancesReady", "message": "all instances are ready",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }})
}

/// Runs requests as a phase of the report.
async fn measure(
    run: &mut Run<'_>,
    name: &'static str,
    connections: usize,
    total: usize,
    request: WriteRequest,
) -> anyhow::Result<Outcome> {
    let job = Job { connections: connections.min(total), total, request, observe: None };
    measure_job(&run.target, &run.pids, run.report.phase(name), job)
        .await
        .with_context(|| format!("phase {name}"))
}

/// Requests a document repeatedly: its slowest time in milliseconds, and its size in MB.
async fn read(run: &Run<'_>, path: &str, accept: &str) -> anyhow::Result<(f64, f64)> {
    let mut connection = Connection::open(&run.target).await?;
    let (mut slowest, mut size) = (Duration::ZERO, 0);
    for _ in 0..READS {
        let started = Instant::now();
        let (status, body) = get_on(run, &mut connection, path, accept).await?;
        ensure!(status == 200, "cannot read {path}: {status}: {}", excerpt(&body));
        slowest = slowest.max(started.elapsed());
        size = body.len();
    }
    Ok((slowest.as_secs_f64() * 1e3, size as f64 / 1e6))
}

/// Waits until the resource of a definition is served.
async fn served(
    run: &Run<'_>,
    connection: &mut Connection,
    index: usize,
    since: Instant,
) -> anyhow::Result<()> {
    let path = format!("{}?limit=1", manifests::objects(index));
    until(run, connection, &path, since, |status, _| status == 200)
        .await
        .with_context(|| format!("{} is not served", manifests::plural(index)))
}

/// Requests a path until the response is as expected.
async fn until(
    run: &Run<'_>,
    connection: &mut Connection,
    path: &str,
    since: Instant,
    is_expected: impl Fn(u16, &[u8]) -> bool,
) -> anyhow::Result<()> {
    loop {
        let (status, body) = get_on(run, connection, path, JSON).await?;
        if is_expected(status, &body) {
            return Ok(());
        }
        if since.elapsed() > VISIBLE_LIMIT {
            bail!("{path} is {status} after {VISIBLE_LIMIT:?}: {}", excerpt(&body));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn get_on(
    run: &Run<'_>,
    connection: &mut Connection,
    path: &str,
    accept: &str,
) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut request = Vec::new();
    write_request_accepting(&mut request, &run.target.host, "GET", format_args!("{path}"), None, accept);
    exchange(run, connection, &request).await
}

async fn post(run: &Run<'_>, path: &str, body: &str) -> anyhow::Result<()> {
    post_on(run, &mut Connection::open(&run.target).await?, path, body).await
}

async fn post_on(run: &Run<'_>, connection: &mut Connection, path: &str, body: &str) -> anyhow::Result<()> {
    let mut request = Vec::new();
    let content = Some((JSON, body.as_bytes()));
    write_request(&mut request, &run.target.host, "POST", format_args!("{path}"), content);
    let (status, answer) = exchange(run, connection, &request).await?;
    ensure!((200..300).contains(&status), "cannot create an object: {status}: {}", excerpt(&answer));
    Ok(())
}

/// One request on a connection, which is opened again if the server closed it.
async fn exchange(
    run: &Run<'_>,
    connection: &mut Connection,
    request: &[u8],
) -> anyhow::Result<(u16, Vec<u8>)> {
    if !connection.is_reusable() {
        *connection = Connection::open(&run.target).await.context("cannot connect to the server")?;
    }
    let mut body = Vec::new();
    let status = connection.request(request, &mut |data| body.extend_from_slice(data)).await?;
    Ok((status, body))
}
