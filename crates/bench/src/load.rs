//! The load generator: many connections that send requests as fast as they are answered.
//!
//! Connections are opened before the measurement starts. A response other than 2xx counts as an error without a latency;
//! so does a connection that breaks, which is opened again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http::{Connection, Target};

/// The deadline of every phase.
pub(crate) const PHASE_LIMIT: Duration = Duration::from_secs(300);
/// The size of the excerpt of an error response.
const EXCERPT: usize = 300;

/// Appends the request with this number.
pub(crate) type WriteRequest = Box<dyn Fn(usize, &mut Vec<u8>) + Send + Sync>;
/// Called with the response to the request with this number, and the time it was complete.
pub(crate) type Observe = Box<dyn Fn(usize, &[u8], Instant) + Send + Sync>;

/// A number of requests to send.
pub(crate) struct Job {
    pub(crate) connections: usize,
    pub(crate) total: usize,
    pub(crate) request: WriteRequest,
    /// Without one, bodies are discarded.
    pub(crate) observe: Option<Observe>,
}

/// The outcome of a [`Job`].
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    /// Of successful requests, in microseconds, ascending.
    pub(crate) latencies: Vec<u32>,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

impl Outcome {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds.max(1e-9)
    }

    /// A percentile (0 to 1) of the latencies, in milliseconds.
    pub(crate) fn latency_ms(&self, quantile: f64) -> f64 {
        percentile(&self.latencies, quantile) / 1e3
    }

    fn add(&mut self, other: Outcome) {
        self.latencies.extend(other.latencies);
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    fn fail(&mut self, message: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(message);
    }
}

/// The value below which the given share of `sorted` lies; 0 if there is none.
pub(crate) fn percentile(sorted: &[u32], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = ((last as f64) * quantile).round() as usize;
    sorted.get(at.min(last)).copied().map_or(0.0, f64::from)
}

/// Sends all requests of a job and waits for all responses.
pub(crate) async fn run(target: &Arc<Target>, job: Job) -> anyhow::Result<Outcome> {
    let job = Arc::new(job);
    let next = Arc::new(AtomicUsize::new(0));
    let mut open = Vec::with_capacity(job.connections);
    for _ in 0..job.connections {
        open.push(Connection::open(target).await.context("cannot connect to the server")?);
    }
    let mut workers = JoinSet::new();
    let started = Instant::now();
    for connection in open {
        workers.spawn(work(Arc::clone(target), connection, Arc::clone(&job), Arc::clone(&next)));
    }
    let mut outcome = Outcome::default();
    let all = async {
        while let Some(finished) = workers.join_next().await {
            outcome
                .add(finished.context("a worker panicked")?.context("the connection to the server is lost")?);
        }
        anyhow::Ok(())
    };
    timeout(PHASE_LIMIT, all).await.context("the phase exceeded its deadline")??;
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

/// Sends one request on a connection of its own; returns status and body.
pub(crate) async fn once(target: &Target, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut connection = Connection::open(target).await.context("cannot connect to the server")?;
    let mut body = Vec::new();
    let mut sink = |data: &[u8]| body.extend_from_slice(data);
    let answer = timeout(PHASE_LIMIT, connection.request(request, &mut sink)).await;
    let status = answer.context("the server did not respond in time")??;
    Ok((status, body))
}

async fn work(
    target: Arc<Target>,
    mut connection: Connection,
    job: Arc<Job>,
    next: Arc<AtomicUsize>,
) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut request, mut body) = (Vec::new(), Vec::new());
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= job.total {
            return Ok(outcome);
        }
        request.clear();
        body.clear();
        (job.request)(index, &mut request);
        let keep = if job.observe.is_some() { usize::MAX } else { EXCERPT };
        let mut received = 0;
        let sent = Instant::now();
        let answer = connection
            .request(&request, &mut |data| {
                received += data.len() as u64;
                let room = keep.saturating_sub(body.len()).min(data.len());
                body.extend_from_slice(&data[..room]);
            })
            .await;
        let done = Instant::now();
        outcome.bytes += received;
        match answer {
            Ok(200..300) => {
                outcome.latencies.push(microseconds(done - sent));
                if let Some(observe) = &job.observe {
                    observe(index, &body, done);
                }
            }
            Ok(status) => outcome.fail(|| format!("{status}: {}", excerpt(&body))),
            Err(ref error) => outcome.fail(|| error.to_string()),
        }
        if answer.is_err() || !connection.is_reusable() {
            connection = Connection::open(&target).await?;
        }
    }
}

pub(crate) fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

pub(crate) fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_and_many() {
        assert_eq!(percentile(&[], 0.99), 0.0);
        assert_eq!(percentile(&[7], 0.5), 7.0);
        let hundred: Vec<u32> = (0..=100).collect();
        assert_eq!(percentile(&hundred, 0.5), 50.0);
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred, 1.0), 100.0);
    }
}
