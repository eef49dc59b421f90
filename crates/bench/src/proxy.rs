//! `corten bench proxy`: the cost of unused Services, and of connections through one.
//!
//! Everything happens in network namespaces of its own: a node between a client and a server. The caller provides the
//! proxy's rules behind [`Rules`], which takes Services and EndpointSlices as objects.

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
/// The number of changes of one Service.
const CHANGES: usize = 10;
/// Turns per second, after each of which the next path is measured.
const TURNS: u64 = 5;

/// The size of the benchmark.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The names of the proxy modes.
    pub backends: Vec<&'static str>,
    pub services: usize,
    pub endpoints: usize,
    /// The seconds of measured connections per path.
    pub seconds: u64,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        let backends = vec!["nftables", "iptables"];
        ProxyOptions { backends, services: 10_000, endpoints: 10, seconds: 3 }
    }
}

/// The proxy's rules in one network namespace.
pub trait Rules {
    /// Applies new states of Services and EndpointSlices.
    fn update(&mut self, services: &[Value], slices: &[Value]);

    /// Writes the resulting rules to the kernel.
    fn write(&mut self) -> anyhow::Result<()>;
}

/// Opens the rules of a proxy mode.
pub type OpenRules<'a> = &'a dyn Fn(&str, Namespace) -> anyhow::Result<Box<dyn Rules>>;

/// Measures each proxy mode.
pub fn proxy(options: &ProxyOptions, open: OpenRules<'_>) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for backend in options.backends.iter().copied() {
        let phase = report.phase(backend);
        measure(options, backend, open, phase).with_context(|| format!("cannot measure {backend}"))?;
    }
    Ok(report)
}

fn measure(
    options: &ProxyOptions,
    backend: &str,
    open: OpenRules<'_>,
    phase: &mut Phase,
) -> anyhow::Result<()> {
    let direct = ConnectionPath::direct().context("cannot create network namespaces")?;
    let few = through(options, FEW, backend, open, phase)?;
    let many = through(options, options.services, backend, open, phase)?;
    let names = ["connects_directly_per_s", "connects_with_few_per_s", "connects_with_many_per_s"];
    for (name, rate) in names.iter().zip(rates([&direct, &few, &many], options.seconds)?) {
        phase.set(name, rate);
    }
    Ok(())
}

/// A path of connections with namespaces of its own, so that no connection meets the conntrack entries of another path.
struct ConnectionPath {
    line: Line,
    to: SocketAddr,
    /// Kept open, without further updates.
    _rules: Option<Box<dyn Rules>>,
}

impl ConnectionPath {
    fn direct() -> anyhow::Result<ConnectionPath> {
        Ok(ConnectionPath { line: Line::new()?, to: SocketAddr::new(SERVER.parse()?, PORT), _rules: None })
    }
}

/// Connections per second on each path: the median of many short turns, after a warm-up. The paths take turns, so that
/// other load and the placement of threads affect all of them alike.
fn rates(paths: [&ConnectionPath; 3], seconds: u64) -> anyhow::Result<[f64; 3]> {
    let mut seen = [const { Vec::new() }; 3];
    for round in 0..=(seconds * TURNS).max(1) {
        for (path, seen) in paths.iter().zip(&mut seen) {
            let rate = connects(path, Duration::from_secs(1) / TURNS as u32)?;
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

/// Writes rules of many Services and measures changes of one; returns the path through another.
fn through(
    options: &ProxyOptions,
    services: usize,
    backend: &str,
    open: OpenRules<'_>,
    phase: &mut Phase,
) -> anyhow::Result<ConnectionPath> {
    let line = Line::new().context("cannot create network namespaces")?;
    let mut rules = open(backend, Namespace::open(line.node.path())?)?;
    let (used, slices): (Vec<Value>, Vec<Value>) =
        (0..services).map(|n| (service(n), slice(n, options.endpoints, 0))).unzip();
    let is_many = services != FEW;
    rules.update(&used, &slices);
    let (wall, cpu) = timed(|| rules.write())?;
    if is_many {
        phase.set("full_sync_ms", wall).set("full_sync_cpu_ms", cpu);
    }
    let (mut wall, mut cpu) = (0.0, 0.0);
    for round in 1..=CHANGES {
        rules.update(&[], &[slice(services / 2, options.endpoints, round)]);
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
    rules.update(&[service(services)], &[real_slice(services)]);
    rules.write()?;
    Ok(ConnectionPath { line, to, _rules: Some(rules) })
}

/// The elapsed and the CPU time of a function, in milliseconds.
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

/// An EndpointSlice of unused addresses; the last one differs in each round.
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

/// The connections per second, one after the other.
fn connects(path: &ConnectionPath, lasting: Duration) -> anyhow::Result<f64> {
    let to = path.to;
    let connected = path.line.client.run(|| {
        let (started, mut count) = (Instant::now(), 0u32);
        while started.elapsed() < lasting {
            // The server closes first, so that TIME_WAIT is on its side.
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
            stream.read_to_end(&mut Vec::new())?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    });
    connected.with_context(|| format!("cannot connect to {to}"))
}
