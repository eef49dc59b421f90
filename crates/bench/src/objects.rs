//! The phases that write and read single objects and lists.

use std::sync::{Arc, mpsc};

use anyhow::{Context, bail, ensure};
use memchr::memmem;
use serde_json::Value;

use crate::apiserver::Session;
use crate::http::{Target, write_request};
use crate::load::{self, Job, Outcome, WriteRequest, excerpt};
use crate::pods::{self, NAMESPACE, PODS};
use crate::report::Phase;
use crate::usage::Meter;

const JSON: &str = "application/json";

/// Creates the namespace and its service account. They may exist already, and a server without admission may not need
/// them; the next phase fails if pods cannot be created.
pub(crate) async fn prepare(session: &Session<'_>) -> anyhow::Result<()> {
    let namespace =
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#);
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#.to_owned();
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    for (path, body) in [("/api/v1/namespaces", namespace), (accounts.as_str(), account)] {
        let mut request = Vec::new();
        let content = Some((JSON, body.as_bytes()));
        write_request(&mut request, &session.target.host, "POST", format_args!("{path}"), content);
        let (status, answer) = load::once(&session.target, &request).await?;
        if !matches!(status, 200..300 | 404 | 409) {
            bail!("cannot create {body}: {status}: {}", excerpt(&answer));
        }
    }
    Ok(())
}

pub(crate) async fn create(session: &mut Session<'_>) -> anyhow::Result<()> {
    let host = session.target.host.clone();
    let request: WriteRequest = Box::new(move |index, out| {
        let body = pods::manifest(index);
        write_request(out, &host, "POST", format_args!("{PODS}"), Some((JSON, body.as_bytes())));
    });
    let job = job(session.options.connections, session.options.pods, request);
    measure(session, "create", job).await?;
    Ok(())
}

/// Reads single pods in a scattered order.
pub(crate) async fn get(
    session: &mut Session<'_>,
    name: &'static str,
    query: &'static str,
) -> anyhow::Result<()> {
    let (host, pods) = (session.target.host.clone(), session.options.pods);
    let request: WriteRequest = Box::new(move |index, out| {
        let pod = pods::name(scattered(index) % pods);
        write_request(out, &host, "GET", format_args!("{PODS}/{pod}{query}"), None);
    });
    let job = job(session.options.connections, session.options.gets, request);
    measure(session, name, job).await?;
    Ok(())
}

/// Lists all pods in one response, repeatedly on one connection.
pub(crate) async fn list(session: &mut Session<'_>) -> anyhow::Result<()> {
    let mut request = Vec::new();
    write_request(&mut request, &session.target.host, "GET", format_args!("{PODS}"), None);
    let (status, answer) = load::once(&session.target, &request).await?;
    ensure!(status == 200, "cannot list pods: {status}: {}", excerpt(&answer));
    let marker = format!("\"name\":\"{}", pods::NAME_PREFIX);
    let items = memmem::find_iter(&answer, marker.as_bytes()).count();
    let megabytes = answer.len() as f64 / 1e6;
    drop(answer);

    let job = job(1, session.options.lists, Box::new(move |_, out| out.extend_from_slice(&request)));
    let outcome = measure(session, "list", job).await?;
    session
        .report
        .phase("list")
        .set("mb_per_s", outcome.bytes as f64 / 1e6 / outcome.seconds.max(1e-9))
        .set("size_mb", megabytes)
        .set("items", items as f64);
    Ok(())
}

/// Replaces every pod with its current state and one more label.
pub(crate) async fn update(session: &mut Session<'_>) -> anyhow::Result<()> {
    let bodies = Arc::new(relabelled(session).await?);
    let (host, total) = (session.target.host.clone(), bodies.len());
    let request: WriteRequest = Box::new(move |index, out| {
        let (name, body) = &bodies[index];
        write_request(out, &host, "PUT", format_args!("{PODS}/{name}"), Some((JSON, body)));
    });
    let job = job(session.options.connections, total, request);
    measure(session, "update", job).await?;
    Ok(())
}

/// All pods, read one by one and changed. Not part of any measurement.
async fn relabelled(session: &Session<'_>) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let host = session.target.host.clone();
    let (sender, bodies) = mpsc::channel();
    let reading = Job {
        connections: session.options.connections,
        total: session.options.pods,
        request: Box::new(move |index, out| {
            let pod = pods::name(index);
            write_request(out, &host, "GET", format_args!("{PODS}/{pod}"), None);
        }),
        // The receiver outlives the job.
        observe: Some(Box::new(move |index, body, _| drop(sender.send((index, body.to_vec()))))),
    };
    load::run(&session.target, reading).await?;
    let mut changed = Vec::with_capacity(session.options.pods);
    for (index, body) in bodies.try_iter() {
        let mut pod: Value = serde_json::from_slice(&body).context("the server's pod is not JSON")?;
        pod["metadata"]["labels"]["bench/round"] = Value::from("1");
        changed.push((pods::name(index), serde_json::to_vec(&pod)?));
    }
    Ok(changed)
}

fn job(connections: usize, total: usize, request: WriteRequest) -> Job {
    Job { connections, total, request, observe: None }
}

/// Runs a job as a phase of the report.
async fn measure(session: &mut Session<'_>, name: &'static str, job: Job) -> anyhow::Result<Outcome> {
    let pids = [session.pid];
    measure_job(&session.target, &pids, session.report.phase(name), job)
        .await
        .with_context(|| format!("phase {name}"))
}

/// Runs a job and records its rate, latencies and CPU time.
pub(crate) async fn measure_job(
    target: &Arc<Target>,
    pids: &[u32],
    phase: &mut Phase,
    job: Job,
) -> anyhow::Result<Outcome> {
    let meter = Meter::start(pids)?;
    let outcome = load::run(target, job).await?;
    describe(phase, &outcome);
    let server_seconds = meter.finish(phase)?;
    phase.set("server_cpu_each_us", server_seconds * 1e6 / outcome.latencies.len().max(1) as f64);
    Ok(outcome)
}

/// Adds the common measures of a phase of requests.
pub(crate) fn describe(phase: &mut Phase, outcome: &Outcome) {
    phase
        .set("per_s", outcome.per_second())
        .set("p50_ms", outcome.latency_ms(0.5))
        .set("p99_ms", outcome.latency_ms(0.99))
        .set("seconds", outcome.seconds)
        .set("count", outcome.latencies.len() as f64)
        .set("errors", outcome.errors as f64)
        .set_first_error(outcome.first_error.clone());
}

/// A fixed shuffle of the numbers (the finaliser of splitmix64).
fn scattered(index: usize) -> usize {
    let mut x = (index as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 33) as usize
}
