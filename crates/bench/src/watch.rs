//! Watchers: each has its own connection and reads events until it has as many as it expects.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::events::EventScanner;
use crate::http::{Body, Connection, Target, write_request};
use crate::load::{excerpt, microseconds};

const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// The path to watch, and the number of expected events.
#[derive(Clone, Copy)]
pub(crate) struct WatchPlan<'a> {
    pub(crate) path: &'a str,
    pub(crate) watchers: usize,
    /// Per watcher; it stops reading after these.
    pub(crate) expected: u64,
    /// One watcher in this many reads versions, to measure lag; 0 for none.
    pub(crate) sample_every: usize,
}

/// Watchers that are reading.
pub(crate) struct Watchers {
    tasks: JoinSet<Watched>,
    stop: Sender<bool>,
}

/// The result of one watcher.
pub(crate) struct Watched {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// When the last event arrived.
    pub(crate) last: Instant,
    /// Versions and when they arrived, if this watcher was sampled.
    pub(crate) arrivals: Vec<(u64, Instant)>,
    /// The stream ended before the expected events.
    pub(crate) cut_off: bool,
}

impl Watchers {
    /// Opens all watches; returns when the server has accepted each.
    pub(crate) async fn open(target: &Target, plan: WatchPlan<'_>) -> anyhow::Result<Watchers> {
        let (stop, stopped) = watch::channel(false);
        let mut request = Vec::new();
        write_request(&mut request, &target.host, "GET", format_args!("{}", plan.path), None);
        let mut tasks = JoinSet::new();
        for index in 0..plan.watchers {
            let (connection, body) = timeout(OPEN_LIMIT, start(target, &request))
                .await
                .context("the server did not accept a watch in time")??;
            let sampled = plan.sample_every > 0 && index % plan.sample_every == 0;
            tasks.spawn(read(connection, body, EventScanner::new(sampled), plan.expected, stopped.clone()));
        }
        Ok(Watchers { tasks, stop })
    }

    /// Waits until every watcher has its events or has ended early; after `limit`, returns the results so far.
    pub(crate) async fn finish(mut self, limit: Duration) -> Vec<Watched> {
        let mut all = Vec::with_capacity(self.tasks.len());
        let on_time = async {
            while let Some(watched) = self.tasks.join_next().await {
                all.extend(watched);
            }
        };
        if timeout(limit, on_time).await.is_err() {
            self.stop.send_replace(true);
            while let Some(watched) = self.tasks.join_next().await {
                all.extend(watched);
            }
        }
        all
    }
}

async fn start(target: &Target, request: &[u8]) -> anyhow::Result<(Connection, Body)> {
    let mut connection = Connection::open(target).await.context("cannot connect to the server")?;
    let (status, mut body) = connection.start(request).await?;
    if status != 200 {
        let mut text = Vec::new();
        while connection.read_body(&mut body, &mut |data| text.extend_from_slice(data)).await? {}
        bail!("cannot watch: {status}: {}", excerpt(&text));
    }
    Ok((connection, body))
}

async fn read(
    mut connection: Connection,
    mut body: Body,
    mut scanner: EventScanner,
    expected: u64,
    mut stopped: Receiver<bool>,
) -> Watched {
    let (mut arrivals, mut last, mut cut_off) = (Vec::new(), Instant::now(), false);
    while scanner.events < expected {
        let before = scanner.events;
        let mut sink = |data: &[u8]| {
            // One clock reading per piece: its events arrive at the same time.
            let mut now = None;
            scanner.feed(data, |version| arrivals.push((version, *now.get_or_insert_with(Instant::now))));
        };
        let more = tokio::select! {
            more = connection.read_body(&mut body, &mut sink) => more,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        if scanner.events != before {
            last = Instant::now();
        }
        if !matches!(more, Ok(true)) {
            cut_off = scanner.events < expected;
            break;
        }
    }
    Watched { events: scanner.events, bytes: scanner.bytes, last, arrivals, cut_off }
}

/// The time from the acknowledgement of each change until a watcher had it, in microseconds, ascending. A change that
/// arrived before its acknowledgement has no lag.
pub(crate) fn lags(watched: &[Watched], acknowledged: &HashMap<u64, Instant>) -> Vec<u32> {
    let arrivals = watched.iter().flat_map(|watcher| &watcher.arrivals);
    let mut lags: Vec<u32> = arrivals
        .filter_map(|(version, at)| {
            Some(microseconds(at.saturating_duration_since(*acknowledged.get(version)?)))
        })
        .collect();
    lags.sort_unstable();
    lags
}
