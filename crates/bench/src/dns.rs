//! Questions to a server of names, as many as it answers, over UDP as resolvers ask them.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::Report;

/// How many questions each asker has open.
const WINDOW: usize = 32;
/// How long an answer is waited for before it counts as lost.
const PATIENCE: Duration = Duration::from_millis(500);
const TYPE_A: [u8; 2] = [0, 1];

/// What to ask, and whom.
#[derive(Debug)]
pub struct DnsOptions {
    pub server: SocketAddr,
    /// All of them are known to it.
    pub names: Vec<String>,
    pub seconds: u32,
    pub askers: usize,
}

/// Asks for as long as it was told to.
pub fn dns(options: &DnsOptions) -> anyhow::Result<Report> {
    let questions: Vec<Vec<u8>> = options.names.iter().map(|name| question(name)).collect();
    if questions.is_empty() {
        bail!("there is nothing to ask");
    }
    let began = Instant::now();
    let until = began + Duration::from_secs(u64::from(options.seconds));
    let heard: anyhow::Result<Vec<Heard>> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..options.askers)
            .map(|number| {
                let skip = number * questions.len() / options.askers.max(1);
                let own = questions.iter().cycle().skip(skip);
                scope.spawn(move || ask(options.server, own, until))
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap_or_else(|_| bail!("an asker failed"))).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut all = Heard::default();
    for heard in heard? {
        all.took.extend(heard.took);
        all.lost += heard.lost;
        all.wrong += heard.wrong;
    }
    Ok(report(all, seconds))
}

#[derive(Debug, Default)]
struct Heard {
    took: Vec<Duration>,
    lost: usize,
    wrong: usize,
}

fn ask<'a>(
    server: SocketAddr,
    mut questions: impl Iterator<Item = &'a Vec<u8>>,
    until: Instant,
) -> anyhow::Result<Heard> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).context("taking a port")?;
    socket.connect(server).context("choosing the server")?;
    socket.set_read_timeout(Some(PATIENCE)).context("setting how long to wait")?;
    let mut heard = Heard::default();
    let mut asked: Vec<Instant> = Vec::with_capacity(WINDOW);
    let mut send = |number: usize| -> anyhow::Result<Instant> {
        let mut message = questions.next().context("there is nothing to ask")?.clone();
        message[..2].copy_from_slice(&(number as u16).to_be_bytes());
        socket.send(&message).context("asking")?;
        Ok(Instant::now())
    };
    for number in 0..WINDOW {
        asked.push(send(number)?);
    }
    let mut buffer = [0; 4096];
    while Instant::now() < until {
        let Ok(length) = socket.recv(&mut buffer) else {
            heard.lost += WINDOW;
            for (number, asked) in asked.iter_mut().enumerate() {
                *asked = send(number)?;
            }
            continue;
        };
        let number = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
        let Some(asked) = asked.get_mut(number).filter(|_| length > 12) else { continue };
        heard.took.push(asked.elapsed());
        // No error, and something found.
        heard.wrong += usize::from(buffer[3] & 15 != 0 || buffer[7] == 0);
        *asked = send(number)?;
    }
    Ok(heard)
}

fn report(mut heard: Heard, seconds: f64) -> Report {
    heard.took.sort_unstable();
    let at = |share: f64| {
        let index = (heard.took.len() as f64 * share) as usize;
        heard.took.get(index.min(heard.took.len().saturating_sub(1))).map_or(0.0, Duration::as_secs_f64) * 1e6
    };
    let mut report = Report::default();
    let phase = report.phase("dns");
    phase.set("per_s", heard.took.len() as f64 / seconds);
    phase.set("p50_us", at(0.5));
    phase.set("p99_us", at(0.99));
    phase.set("lost", heard.lost as f64);
    let failed = heard.wrong + if heard.took.is_empty() { 1 } else { 0 };
    phase.set_first_error((failed > 0).then(|| format!("{failed} questions had no good answer")));
    report
}

/// A question for the addresses of a name, under no number yet.
pub(crate) fn question(name: &str) -> Vec<u8> {
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
