//! DNS queries over UDP, as many as the server answers.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::Report;

/// The number of queries that each client has in flight.
const WINDOW: usize = 32;
/// The timeout after which a query is lost.
const TIMEOUT: Duration = Duration::from_millis(500);
const TYPE_A: [u8; 2] = [0, 1];

/// The queries and the server.
#[derive(Debug)]
pub struct DnsOptions {
    pub server: SocketAddr,
    /// Names that the server knows.
    pub names: Vec<String>,
    pub seconds: u32,
    pub clients: usize,
}

/// Sends queries for the configured time.
pub fn dns(options: &DnsOptions) -> anyhow::Result<Report> {
    let queries: Vec<Vec<u8>> = options.names.iter().map(|name| query(name)).collect();
    if queries.is_empty() {
        bail!("there are no names to query");
    }
    let started = Instant::now();
    let until = started + Duration::from_secs(u64::from(options.seconds));
    let outcomes: anyhow::Result<Vec<Outcome>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients)
            .map(|number| {
                let skip = number * queries.len() / options.clients.max(1);
                let own = queries.iter().cycle().skip(skip);
                scope.spawn(move || send_queries(options.server, own, until))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
            .collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    let mut all = Outcome::default();
    for outcome in outcomes? {
        all.took.extend(outcome.took);
        all.lost += outcome.lost;
        all.wrong += outcome.wrong;
    }
    Ok(report(all, seconds))
}

#[derive(Debug, Default)]
struct Outcome {
    took: Vec<Duration>,
    lost: usize,
    wrong: usize,
}

fn send_queries<'a>(
    server: SocketAddr,
    mut queries: impl Iterator<Item = &'a Vec<u8>>,
    until: Instant,
) -> anyhow::Result<Outcome> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).context("cannot bind a port")?;
    socket.connect(server).context("cannot connect to the server")?;
    socket.set_read_timeout(Some(TIMEOUT)).context("cannot set the read timeout")?;
    let mut outcome = Outcome::default();
    let mut sent: Vec<Instant> = Vec::with_capacity(WINDOW);
    let mut send = |number: usize| -> anyhow::Result<Instant> {
        let mut message = queries.next().context("there are no names to query")?.clone();
        message[..2].copy_from_slice(&(number as u16).to_be_bytes());
        socket.send(&message).context("cannot send a query")?;
        Ok(Instant::now())
    };
    for number in 0..WINDOW {
        sent.push(send(number)?);
    }
    let mut buffer = [0; 4096];
    while Instant::now() < until {
        let Ok(length) = socket.recv(&mut buffer) else {
            outcome.lost += WINDOW;
            for (number, sent) in sent.iter_mut().enumerate() {
                *sent = send(number)?;
            }
            continue;
        };
        let number = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
        let Some(sent) = sent.get_mut(number).filter(|_| length > 12) else { continue };
        outcome.took.push(sent.elapsed());
        // NOERROR, with at least one answer.
        outcome.wrong += usize::from(buffer[3] & 15 != 0 || buffer[7] == 0);
        *sent = send(number)?;
    }
    Ok(outcome)
}

fn report(mut outcome: Outcome, seconds: f64) -> Report {
    outcome.took.sort_unstable();
    let at = |share: f64| {
        let index = (outcome.took.len() as f64 * share) as usize;
        outcome.took.get(index.min(outcome.took.len().saturating_sub(1))).map_or(0.0, Duration::as_secs_f64)
            * 1e6
    };
    let mut report = Report::default();
    let phase = report.phase("dns");
    phase.set("per_s", outcome.took.len() as f64 / seconds);
    phase.set("p50_us", at(0.5));
    phase.set("p99_us", at(0.99));
    phase.set("lost", outcome.lost as f64);
    let failed = outcome.wrong + if outcome.took.is_empty() { 1 } else { 0 };
    phase.set_first_error((failed > 0).then(|| format!("{failed} queries had no good answer")));
    report
}

/// An A query for a name, with ID 0.
pub(crate) fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend(TYPE_A);
    message.extend([0, 1]);
    message
}
