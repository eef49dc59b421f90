//! The phases in which many clients watch while others write, or while nothing happens.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::apiserver::Session;
use crate::events::resource_version;
use crate::http::{Connection, write_request};
use crate::load::{self, Job, Outcome, PHASE_LIMIT, excerpt, microseconds, percentile};
use crate::objects::describe;
use crate::pods::{self, PODS};
use crate::report::Phase;
use crate::usage;
use crate::watch::{WatchPlan, Watched, Watchers, lags};

const MERGE_PATCH: &str = "application/merge-patch+json";
/// The deadline for events after the last write.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// The same after failed writes, whose events never come.
const DRAIN_LIMIT_AFTER_ERRORS: Duration = Duration::from_secs(3);

/// Status patches as fast as the server allows, with many watchers.
pub(crate) async fn burst(session: &mut Session<'_>) -> anyhow::Result<()> {
    let (patches, pods) = (session.options.patches, session.options.pods);
    let path = watch_path(session).await?;
    let plan = WatchPlan {
        path: &path,
        watchers: session.options.watchers,
        expected: patches as u64,
        sample_every: 10,
    };
    let watchers = Watchers::open(&session.target, plan).await?;
    let host = session.target.host.clone();
    let (sender, acknowledgements) = mpsc::channel();
    let job = Job {
        connections: session.options.connections,
        total: patches,
        request: Box::new(move |index, out| write_patch(out, &host, index % pods, "burst", index)),
        observe: Some(Box::new(move |_, body, at| {
            if let Some(version) = resource_version(body) {
                // The receiver outlives the job.
                let _ = sender.send((version, at));
            }
        })),
    };
    let meter = session.meter()?;
    let outcome = load::run(&session.target, job).await.context("phase burst")?;
    let started = Instant::now() - Duration::from_secs_f64(outcome.seconds);
    let watched = watchers.finish(drain_limit(&outcome)).await;
    let phase = session.report.phase("burst");
    describe(phase, &outcome);
    meter.finish(phase)?;
    describe_watching(phase, started, &outcome, &watched, &acknowledgements.try_iter().collect());
    Ok(())
}

/// Status patches at a steady rate from one client, with many watchers.
pub(crate) async fn steady(session: &mut Session<'_>) -> anyhow::Result<()> {
    let patches = session.options.steady_rate as usize * session.options.steady_seconds as usize;
    let path = watch_path(session).await?;
    let plan = WatchPlan {
        path: &path,
        watchers: session.options.watchers,
        expected: patches as u64,
        sample_every: 1,
    };
    let watchers = Watchers::open(&session.target, plan).await?;
    let meter = session.meter()?;
    let started = Instant::now();
    let (outcome, sent, acknowledged) = timeout(PHASE_LIMIT, paced_patches(session, patches))
        .await
        .context("the server did not respond in time")?
        .context("phase steady")?;
    let watched = watchers.finish(drain_limit(&outcome)).await;
    let phase = session.report.phase("steady");
    describe(phase, &outcome);
    meter.finish(phase)?;
    describe_watching(phase, started, &outcome, &watched, &acknowledged);
    // On an idle server events may overtake the acknowledgements, so lag is counted from the request.
    let delays = lags(&watched, &sent);
    session
        .report
        .phase("steady")
        .set("from_send_p50_ms", percentile(&delays, 0.5) / 1e3)
        .set("from_send_p99_ms", percentile(&delays, 0.99) / 1e3);
    Ok(())
}

/// The outcome of the patches, and by version the times when each was sent and acknowledged.
async fn paced_patches(
    session: &Session<'_>,
    patches: usize,
) -> anyhow::Result<(Outcome, HashMap<u64, Instant>, HashMap<u64, Instant>)> {
    let mut connection = Connection::open(&session.target).await?;
    let mut pace = interval(Duration::from_secs(1) / session.options.steady_rate);
    // A server that falls behind gets its patches later, not fewer of them.
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut outcome, mut sent_at, mut acknowledged) = (Outcome::default(), HashMap::new(), HashMap::new());
    let (mut request, mut body) = (Vec::new(), Vec::new());
    let started = Instant::now();
    for index in 0..patches {
        pace.tick().await;
        request.clear();
        body.clear();
        write_patch(&mut request, &session.target.host, index % session.options.pods, "steady", index);
        let sent = Instant::now();
        let status = connection.request(&request, &mut |data| body.extend_from_slice(data)).await?;
        let done = Instant::now();
        if (200..300).contains(&status) {
            outcome.latencies.push(microseconds(done - sent));
            if let Some(version) = resource_version(&body) {
                sent_at.insert(version, sent);
                acknowledged.insert(version, done);
            }
        } else {
            outcome.errors += 1;
            outcome.first_error.get_or_insert_with(|| format!("{status}: {}", excerpt(&body)));
        }
        if !connection.is_reusable() {
            connection = Connection::open(&session.target).await?;
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.latencies.sort_unstable();
    Ok((outcome, sent_at, acknowledged))
}

/// Measures the idle server without clients.
pub(crate) async fn idle(session: &mut Session<'_>) -> anyhow::Result<()> {
    let seconds = session.options.idle_seconds;
    let before = usage::fine_cpu_seconds(session.pid)?;
    let started = Instant::now();
    // The measurement is the time that passes.
    sleep(Duration::from_secs(u64::from(seconds))).await;
    let used = usage::fine_cpu_seconds(session.pid)? - before;
    let elapsed = started.elapsed().as_secs_f64().max(1e-9);
    session.report.phase("idle").set("cpu_percent", used.max(0.0) / elapsed * 100.0).set("seconds", elapsed);
    Ok(())
}

/// Measures the memory per idle watcher.
pub(crate) async fn idle_watchers(session: &mut Session<'_>) -> anyhow::Result<()> {
    let count = session.options.idle_watchers;
    let path = watch_path(session).await?;
    let plan = WatchPlan { path: &path, watchers: count, expected: u64::MAX, sample_every: 0 };
    let before = usage::resident_mb(session.pid)?;
    let watchers = Watchers::open(&session.target, plan).await.context("phase idle_watchers")?;
    let grown = usage::resident_mb(session.pid)? - before;
    let watched = watchers.finish(Duration::ZERO).await;
    session
        .report
        .phase("idle_watchers")
        .set("count", count as f64)
        .set("rss_mb", grown)
        .set("each_kb", grown * 1e3 / count.max(1) as f64)
        .set("cut_off", watched.iter().filter(|watcher| watcher.cut_off).count() as f64);
    Ok(())
}

/// The deadline for events after the last write of a phase.
pub(crate) fn drain_limit(outcome: &Outcome) -> Duration {
    if outcome.errors == 0 { DRAIN_LIMIT } else { DRAIN_LIMIT_AFTER_ERRORS }
}

/// Adds the measures of watchers that received the events of a phase's writes.
pub(crate) fn describe_watching(
    phase: &mut Phase,
    started: Instant,
    outcome: &Outcome,
    watched: &[Watched],
    acknowledged: &HashMap<u64, Instant>,
) {
    let events: u64 = watched.iter().map(|watcher| watcher.events).sum();
    let bytes: u64 = watched.iter().map(|watcher| watcher.bytes).sum();
    let last = watched.iter().map(|watcher| watcher.last).max().unwrap_or(started);
    let seconds = last.saturating_duration_since(started).as_secs_f64().max(1e-9);
    let owed = outcome.latencies.len() as u64 * watched.len() as u64;
    let lags = lags(watched, acknowledged);
    phase
        .set("events_per_s", events as f64 / seconds)
        .set("mb_per_s", bytes as f64 / 1e6 / seconds)
        .set("lag_p50_ms", percentile(&lags, 0.5) / 1e3)
        .set("lag_p99_ms", percentile(&lags, 0.99) / 1e3)
        .set("lag_max_ms", percentile(&lags, 1.0) / 1e3)
        .set("lag_samples", lags.len() as f64)
        .set("delivered", events as f64)
        .set("missed", owed.saturating_sub(events) as f64)
        .set("cut_off", watched.iter().filter(|watcher| watcher.cut_off).count() as f64);
}

/// The path of a watch of all pods from now on.
async fn watch_path(session: &Session<'_>) -> anyhow::Result<String> {
    let mut request = Vec::new();
    write_request(&mut request, &session.target.host, "GET", format_args!("{PODS}?limit=1"), None);
    let (status, answer) = load::once(&session.target, &request).await?;
    ensure!(status == 200, "cannot list pods: {status}: {}", excerpt(&answer));
    let list: Value = serde_json::from_slice(&answer).context("the server's list is not JSON")?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    Ok(format!("{PODS}?watch=true&resourceVersion={version}"))
}

/// A status patch of a kubelet. No two are equal, because a patch without a change has no event.
fn write_patch(out: &mut Vec<u8>, host: &str, pod: usize, round: &str, index: usize) {
    let body = format!(
        r#"{{"status":{{"phase":"Running","message":"{round} {index}","podIP":"10.244.{}.{}"}}}}"#,
        pod / 250 % 250,
        pod % 250 + 1,
    );
    let content = Some((MERGE_PATCH, body.as_bytes()));
    write_request(out, host, "PATCH", format_args!("{PODS}/{}/status", pods::name(pod)), content);
}
