//! `corten bench proxy`: what Services cost that nobody uses, and what the way through one costs.
//!
//! Everything happens in network namespaces of its own: a node between a client and a server. Whatever makes the rules
//! is told of Services and EndpointSlices as objects; it is the caller's, for nothing here knows how it works.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use corten_api::{Value, value};
use corten_net::namespace::Namespace;

use crate::line::{Line, PORT, SERVER};
use crate::report::{Phase, Report};
use crate::usage::own_cpu_seconds;

const FEW: usize = 10;
/// How often one Service changes.
const CHANGES: usize = 10;
/// How often in a second it is another way's turn.
const TURNS: u64 = 5;

/// What to measure, and how much of it.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The back ends' names.
    pub backends: Vec<&'static str>,
    pub services: usize,
    pub endpoints: usize,
    /// How many seconds connections are counted, each way.
    pub seconds: u64,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        let backends = vec!["nftables", "iptables"];
        ProxyOptions { backends, services: 10_000, endpoints: 10, seconds: 3 }
    }
}

/// Makes rules in one network namespace.
pub trait Rules {
    /// Takes in Services and EndpointSlices.
    fn tell(&mut self, services: &[Value], slices: &[Value]);

    /// Writes what follows, and returns when it is written.
    fn write(&mut self) -> anyhow::Result<()>;
}

/// Makes rules by a back end's name.
pub type OpenRules<'a> = &'a dyn Fn(&str, Namespace) -> anyhow::Result<Box<dyn Rules>>;

/// Measures each back end.
pub fn proxy(options: &ProxyOptions, open: OpenRules<'_>) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for backend in options.backends.iter().copied() {
        let phase = report.phase(backend);
        measure(options, backend, open, phase).with_context(|| format!("measuring {backend}"))?;
    }
    Ok(report)
}

fn measure(
    options: &ProxyOptions,
    backend: &str,
    open: OpenRules<'_>,
    phase: &mut Phase,
) -> anyhow::Result<()> {
    let direct = Way::direct().context("making network namespaces")?;
    let few = through(options, FEW, backend, open, phase)?;
    let many = through(options, options.services, backend, open, phase)?;
    let names = ["connects_directly_per_s", "connects_with_few_per_s", "connects_with_many_per_s"];
    for (name, rate) in names.iter().zip(rates([&direct, &few, &many], options.seconds)?) {
        phase.set(name, rate);
    }
    Ok(())
}

/// A way that connections take: nobody else has taken it, so that no connection meets the remains of another's.
struct Way {
    line: Line,
    to: SocketAddr,
    /// Whoever made its rules is told nothing any more.
    _rules: Option<Box<dyn Rules>>,
}

impl Way {
    fn direct() -> anyhow::Result<Way> {
        Ok(Way { line: Line::new()?, to: SocketAddr::new(SERVER.parse()?, PORT), _rules: None })
    }
}

/// Connections per second on each way, measured in many short turns so that what else the machine does, and where it
/// puts threads, is in all of them; after some that are not counted. The middle one of a way's turns counts.
fn rates(ways: [&Way; 3], seconds: u64) -> anyhow::Result<[f64; 3]> {
    let mut seen = [const { Vec::new() }; 3];
    for round in 0..=(seconds * TURNS).max(1) {
        for (way, seen) in ways.iter().zip(&mut seen) {
            let rate = connects(way, Duration::from_secs(1) / TURNS as u32)?;
            if round > 0 {
                seen.push(rate);
            }
        }
    }
    Ok(seen.map(|mut seen| {
        seen.sort_by(f64::total_cmp);
        seen.get(seen.len() / 2).copied().unwrap_or_default()
    }))
}

/// Writes so many Services and changes one; the way through another.
fn through(
    options: &ProxyOptions,
    services: usize,
    backend: &str,
    open: OpenRules<'_>,
    phase: &mut Phase,
) -> anyhow::Result<Way> {
    let line = Line::new().context("making network namespaces")?;
    let mut rules = open(backend, Namespace::open(line.node.path())?)?;
    let (used, slices): (Vec<Value>, Vec<Value>) =
        (0..services).map(|n| (service(n), slice(n, options.endpoints, 0))).unzip();
    let is_many = services != FEW;
    rules.tell(&used, &slices);
    let (wall, cpu) = timed(|| rules.write())?;
    if is_many {
        phase.set("full_sync_ms", wall).set("full_sync_cpu_ms", cpu);
    }
    let (mut wall, mut cpu) = (0.0, 0.0);
    for round in 1..=CHANGES {
        rules.tell(&[], &[slice(services / 2, options.endpoints, round)]);
        let (one_wall, one_cpu) = timed(|| rules.write())?;
        (wall, cpu) = (wall + one_wall, cpu + one_cpu);
    }
    let (wall, cpu) = (wall / CHANGES as f64, cpu / CHANGES as f64);
    if is_many {
        phase.set("change_ms", wall).set("change_cpu_ms", cpu);
    } else {
        phase.set("change_of_few_ms", wall).set("change_of_few_cpu_ms", cpu);
    }
    let to = SocketAddr::new(cluster_ip(services).into(), 80);
    rules.tell(&[service(services)], &[real_slice(services)]);
    rules.write()?;
    Ok(Way { line, to, _rules: Some(rules) })
}

/// How long something takes, and how much CPU, in milliseconds.
fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<(f64, f64)> {
    let (started, cpu) = (Instant::now(), own_cpu_seconds()?);
    work()?;
    Ok((started.elapsed().as_secs_f64() * 1e3, (own_cpu_seconds()? - cpu) * 1e3))
}

fn cluster_ip(n: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 96, 0, 1).to_bits() + n as u32)
}

fn service(n: usize) -> Value {
    value!({
        "metadata": {"namespace": "default", "name": (format!("service-{n}"))},
        "spec": {
            "clusterIP": (cluster_ip(n).to_string()),
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        },
    })
}

/// Nobody is at these addresses; with each round, another one is the last.
fn slice(n: usize, endpoints: usize, round: usize) -> Value {
    let base = Ipv4Addr::new(10, 128, 0, 0).to_bits() + (n * endpoints) as u32;
    let listed = (0..endpoints).map(|endpoint| {
        let last = if endpoint + 1 == endpoints { (round << 21) as u32 } else { 0 };
        value!({"addresses": [(Ipv4Addr::from_bits(base + endpoint as u32 + last).to_string())]})
    });
    let listed: Vec<Value> = listed.collect();
    slice_of(n, listed)
}

fn real_slice(n: usize) -> Value {
    slice_of(n, vec![value!({"addresses": [(SERVER)]})])
}

fn slice_of(n: usize, endpoints: Vec<Value>) -> Value {
    value!({
        "metadata": {
            "namespace": "default", "name": (format!("service-{n}-1")),
            "labels": {"kubernetes.io/service-name": (format!("service-{n}"))},
        },
        "addressType": "IPv4", "ports": [{"name": "http", "port": (i64::from(PORT)), "protocol": "TCP"}],
        "endpoints": (endpoints),
    })
}

/// How many connections are made in a second, one after the other.
fn connects(way: &Way, lasting: Duration) -> anyhow::Result<f64> {
    let to = way.to;
    let connected = way.line.client.run(|| {
        let (started, mut count) = (Instant::now(), 0u32);
        while started.elapsed() < lasting {
            // The server closes first, so that its side keeps what is left of the connection.
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
            stream.read_to_end(&mut Vec::new())?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    });
    connected.with_context(|| format!("connecting to {to}"))
}
