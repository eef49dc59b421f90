//! The proxy's loop: subscribes to the API, syncs rules, and serves health and metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Response, StatusCode};
use corten_base::{Backoff, Clock};
use corten_client::{Change, kinds};
use corten_net::namespace::Namespace;
use corten_reconcile::Manager;
use corten_serving::http;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{Config, Mode};
use crate::engine::{Engine, Outcome, Synced};
use crate::health::{self, Handler, Health, ServiceHealth};
use crate::inputs::Inputs;
use crate::metrics::{Metric, Metrics, family};
use crate::{iptables, nftables, sysctls};

/// The delay before stale chains are removed: some kernels take a while to drop references to a chain.
const STALE: Duration = Duration::from_secs(1);
/// The period of full syncs, in case another program changed the rules.
const FULL: Duration = Duration::from_secs(3600);
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// A running proxy.
pub struct Proxy {
    inputs: Mutex<Inputs>,
    wake: Notify,
    metrics: Metrics,
    health: Arc<Health>,
    mode: Mode,
    started: Timestamp,
}

impl Proxy {
    /// All metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let inputs = self.inputs.lock();
        for (metric, value) in [
            (Metric::ServiceChanges, inputs.service_changes as f64),
            (Metric::EndpointChanges, inputs.endpoint_changes as f64),
            (Metric::ServiceChangesPending, inputs.pending() as f64),
            (Metric::EndpointChangesPending, inputs.pending() as f64),
        ] {
            self.metrics.set(metric, &[], value);
        }
        drop(inputs);
        self.metrics.text()
    }

    fn queued(&self, now: Timestamp) {
        self.health.queued();
        for ipv4 in [true, false] {
            self.metrics.set(Metric::LastQueued, &[family(ipv4)], seconds(now));
        }
        self.wake.notify_one();
    }

    /// The response of the health endpoints, for load balancers and kubelets.
    fn health_response(&self, path: &str) -> Response<String> {
        let (metric, response) = match path {
            "/healthz" => {
                let is_eligible = self.inputs.lock().node.is_eligible;
                (Metric::Healthz, self.health.response(Some(is_eligible)))
            }
            "/livez" => (Metric::Livez, self.health.response(None)),
            _ => return http::not_found(),
        };
        let code = if response.status() == StatusCode::OK { "200" } else { "503" };
        self.metrics.add(metric, &[("code", code)], 1.0);
        response
    }

    /// The response of the metrics endpoints.
    fn metrics_response(&self, path: &str) -> Response<String> {
        match path {
            "/metrics" => http::metrics(self.metrics()),
            "/healthz" => http::text(StatusCode::OK, "ok"),
            "/proxyMode" => {
                let mode = if self.mode == Mode::Nftables { "nftables" } else { "iptables" };
                http::text(StatusCode::OK, mode)
            }
            _ => http::not_found(),
        }
    }

    /// Records the outcome of a sync in health and metrics.
    fn record(&self, outcome: &Outcome, now: Timestamp) {
        for ipv4 in [true, false] {
            // A family without changes is in sync.
            if !outcome.families.iter().any(|synced| synced.ipv4 == ipv4 && synced.failed) {
                self.health.updated(ipv4);
            }
        }
        for synced in &outcome.families {
            let family = family(synced.ipv4);
            let labels = &[family];
            let took = synced.took.as_secs_f64();
            self.metrics.observe(Metric::Duration, labels, took);
            let kind = if synced.was_full { Metric::FullDuration } else { Metric::PartialDuration };
            self.metrics.observe(kind, labels, took);
            if synced.failed {
                self.record_failure(synced);
                continue;
            }
            self.metrics.set(Metric::LastSynced, labels, seconds(now));
            let (internal, external) = synced.without_local;
            for (policy, count) in [("internal", internal), ("external", external)] {
                let labels = [("traffic_policy", policy), family];
                self.metrics.set(Metric::NoLocalEndpoints, &labels, count as f64);
            }
            if let Some((count, took)) = synced.flows_deleted {
                self.metrics.observe(Metric::ConntrackDuration, labels, took.as_secs_f64());
                self.metrics.add(Metric::ConntrackDeleted, labels, count as f64);
            }
            for count in &synced.rule_counts {
                let labels = [("table", count.table), family];
                self.metrics.set(Metric::IptablesRules, &labels, count.total as f64);
                self.metrics.set(Metric::IptablesLast, &labels, count.written as f64);
            }
            // Changes from before the start of this process do not count as its delay.
            for began in outcome.triggers.iter().filter(|began| **began > self.started) {
                let delay = now.duration_since(*began).as_secs_f64();
                self.metrics.observe(Metric::NetworkProgramming, labels, delay);
            }
        }
    }

    fn record_failure(&self, synced: &Synced) {
        let labels = [family(synced.ipv4)];
        match self.mode {
            Mode::Nftables => self.metrics.add(Metric::NftablesFailures, &labels, 1.0),
            Mode::Iptables => {
                self.metrics.add(Metric::IptablesFailures, &labels, 1.0);
                let partial = if synced.was_full { 0.0 } else { 1.0 };
                self.metrics.add(Metric::IptablesPartialFailures, &labels, partial);
            }
        }
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.as_nanosecond() as f64 / 1e9
}

/// Starts a proxy of the network namespace that the caller is in. It ends with the manager; its rules stay.
pub fn start(manager: &Manager, config: Config, node_name: &str) -> io::Result<Arc<Proxy>> {
    let clock = manager.clock().clone();
    let health = Health::new(clock.clone(), config.sync_period * 2);
    let proxy = Arc::new(Proxy {
        inputs: Mutex::default(),
        wake: Notify::new(),
        metrics: Metrics::default(),
        health: health.clone(),
        mode: config.mode,
        started: clock.now(),
    });
    proxy.metrics.prepare(config.mode);
    let namespace = Namespace::current()?;
    sysctls::apply(&config.conntrack, &namespace);
    listen(manager, &proxy, &config);
    let checks = ServiceHealth::new(health, manager.recorder().clone(), node_name);
    let (min_sync_period, sync_period) = (config.min_sync_period, config.sync_period);
    let engine = Engine::open(config, namespace)?;
    let worker = Worker { proxy: proxy.clone(), clock, min_sync_period, sync_period, checks };
    subscribe(manager, &proxy, node_name, worker, engine);
    Ok(proxy)
}

/// Removes all rules that a proxy made, in any mode, in the network namespace that the caller is in.
pub fn clean_up() -> io::Result<()> {
    for ipv4 in [true, false] {
        remove(Mode::Nftables, ipv4)?;
        remove(Mode::Iptables, ipv4)?;
    }
    Ok(())
}

fn remove(mode: Mode, ipv4: bool) -> io::Result<()> {
    let namespace = Namespace::current()?;
    match mode {
        Mode::Nftables => nftables::Table::remove(&namespace, ipv4),
        Mode::Iptables => iptables::Tables::remove(namespace, ipv4),
    }
}

/// Removes the rules of other modes, which would conflict.
fn remove_others(mode: Mode) {
    let other = if mode == Mode::Nftables { Mode::Iptables } else { Mode::Nftables };
    for ipv4 in [true, false] {
        if let Err(err) = remove(other, ipv4) {
            tracing::warn!(mode = ?other, ipv4, %err, "cannot remove rules of another proxy mode");
        }
    }
}

/// Applies a change. Returns true if it affects rules.
type Apply = fn(&mut Inputs, &Change) -> bool;

/// Subscribes the inputs to the caches, and starts the worker when the caches have synced.
fn subscribe(manager: &Manager, proxy: &Arc<Proxy>, node_name: &str, worker: Worker, engine: Engine) {
    let caches = manager.caches();
    let node = kinds::NODES.with_fields(format!("metadata.name={node_name}"));
    let subscribed: [(_, Apply); 5] = [
        (caches.of(&kinds::SERVICES), Inputs::service),
        (caches.of(&kinds::ENDPOINT_SLICES), Inputs::slice),
        (caches.of(&kinds::SERVICE_CIDRS), Inputs::service_cidr),
        (caches.of(&node), Inputs::node),
        (caches.of(&kinds::NODES), Inputs::any_node),
    ];
    let mut synced = Vec::new();
    for (cache, apply) in subscribed {
        let (proxy, clock) = (proxy.clone(), manager.clock().clone());
        cache.subscribe(move |change| {
            if apply(&mut proxy.inputs.lock(), change) {
                proxy.queued(clock.now());
            }
        });
        // Older API servers have no ServiceCIDRs.
        if *cache.kind() != kinds::SERVICE_CIDRS {
            synced.push(cache);
        }
    }
    manager.spawn(async move {
        // The rules of an earlier process are better than rules for a part of the Services.
        for cache in synced {
            cache.synced().await;
        }
        worker.run(engine).await;
    });
}

/// Serves health and metrics. The proxy runs without them if their ports are taken.
fn listen(manager: &Manager, proxy: &Arc<Proxy>, config: &Config) {
    let (health, metrics) = (proxy.clone(), proxy.clone());
    let served: [(&str, Option<SocketAddr>, Handler); 2] = [
        ("health", config.healthz, Arc::new(move |path| health.health_response(path))),
        ("metrics", config.metrics, Arc::new(move |path| metrics.metrics_response(path))),
    ];
    for (endpoint, address, handler) in served {
        let Some(address) = address else { continue };
        match health::bind(address) {
            Ok(listener) => manager.spawn(health::serve(listener, handler)),
            Err(err) => tracing::warn!(endpoint, %address, %err, "cannot bind health/metrics listener"),
        }
    }
}

struct Worker {
    proxy: Arc<Proxy>,
    clock: Clock,
    min_sync_period: Duration,
    sync_period: Duration,
    checks: ServiceHealth,
}

/// The worker's next step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Sync,
    CleanUp,
    Inspect,
}

impl Worker {
    async fn run(mut self, mut engine: Engine) {
        let (mut failures, mut task, mut is_first) = (0, Task::Sync, true);
        loop {
            let proxy = self.proxy.clone();
            let done = tokio::task::spawn_blocking(move || {
                let outcome = proxy.act(&mut engine, task);
                (engine, outcome)
            });
            // A panic leaves the rules as they are, and ends the proxy.
            let Ok((back, outcome)) = done.await else {
                tracing::error!("proxy sync panicked; Services are no longer updated");
                return;
            };
            engine = back;
            failures = if outcome.failed() { failures + 1 } else { 0 };
            if failures == 0 && std::mem::take(&mut is_first) {
                let mode = self.proxy.mode;
                drop(tokio::task::spawn_blocking(move || remove_others(mode)));
            }
            for synced in outcome.families {
                self.checks.change(synced.ipv4, synced.node_port_addresses.as_deref(), synced.checks);
            }
            self.clock.sleep(self.min_sync_period).await;
            task = self.next(engine.has_stale(), failures).await;
        }
    }

    /// Waits for the next step.
    async fn next(&self, has_stale: bool, failures: u32) -> Task {
        if failures > 0 {
            // A change must not wait for the retry of a family that failed.
            self.clock.timeout(RETRY.delay(failures), self.proxy.wake.notified()).await;
            return Task::Sync;
        }
        let (pause, otherwise) = match self.proxy.mode {
            _ if has_stale => (STALE, Task::CleanUp),
            Mode::Nftables => (FULL, Task::Inspect),
            Mode::Iptables => (self.sync_period, Task::Inspect),
        };
        let changed = self.clock.timeout(pause, self.proxy.wake.notified()).await;
        if changed.is_some() { Task::Sync } else { otherwise }
    }
}

impl Proxy {
    fn act(&self, engine: &mut Engine, task: Task) -> Outcome {
        match task {
            Task::CleanUp => self.clean_up(engine),
            Task::Inspect if self.mode == Mode::Nftables => engine.distrust(),
            Task::Inspect => {
                if engine.inspect() {
                    tracing::warn!("proxy rules were removed by another program; writing them again");
                }
            }
            Task::Sync => {}
        }
        let outcome = engine.sync(&self.inputs);
        self.record(&outcome, self.health.now());
        outcome
    }

    fn clean_up(&self, engine: &mut Engine) {
        for (ipv4, cleaned) in engine.clean_up() {
            if let Err(err) = cleaned {
                tracing::warn!(ipv4, %err, "cannot remove stale proxy rules");
                self.metrics.add(Metric::NftablesCleanupFailures, &[family(ipv4)], 1.0);
            }
        }
    }
}
