//! The metrics of `/metrics`, with upstream's names, in Prometheus' text format.
//!
//! Counting must be cheap: one short lock per request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corten_api::Str;
use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

use crate::allocation;
use crate::call::Backend;
use crate::in_flight::Lanes;

/// Upstream's buckets for request durations.
const BUCKETS: [f64; 18] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

/// The labels of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    pub verb: &'static str,
    pub group: Str,
    pub version: Str,
    pub resource: Str,
    pub subresource: Str,
    pub scope: &'static str,
}

struct RequestStats {
    by_code: BTreeMap<u16, u64>,
    durations: Histogram,
}

impl Default for RequestStats {
    fn default() -> RequestStats {
        RequestStats { by_code: BTreeMap::new(), durations: Histogram::new(&BUCKETS) }
    }
}

/// Metrics of parts that run beside the API server in its process.
pub(crate) type MoreMetrics = Box<dyn Fn(&mut Exposition) + Send + Sync>;

pub(crate) struct Metrics {
    started: SystemTime,
    requests: Mutex<BTreeMap<RequestKey, RequestStats>>,
    pub watches: AtomicI64,
    pub handshake_errors: AtomicU64,
    pub panics: AtomicU64,
    pub more: Mutex<Vec<MoreMetrics>>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            started: SystemTime::now(),
            requests: Mutex::default(),
            watches: AtomicI64::new(0),
            handshake_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            more: Mutex::default(),
        }
    }

    pub(crate) fn count(&self, key: RequestKey, code: u16, took: Duration) {
        let mut requests = self.requests.lock();
        let stats = requests.entry(key).or_default();
        *stats.by_code.entry(code).or_default() += 1;
        stats.durations.observe(took.as_secs_f64());
    }

    /// All metrics, in Prometheus' text format.
    pub(crate) fn render(&self, backend: &Backend, lanes: &Lanes) -> String {
        let mut out = Exposition::default();
        self.render_requests(&mut out);
        let [running, refused] = ["apiserver_current_inflight_requests", "apiserver_dropped_requests_total"];
        out.family(running, Kind::Gauge, "Requests being served, by kind.");
        for (kind, count, _) in lanes.counts() {
            out.sample(running, &[("request_kind", kind)], count);
        }
        out.family(refused, Kind::Counter, "Requests turned away because there were too many, by kind.");
        for (kind, _, count) in lanes.counts() {
            out.sample(refused, &[("request_kind", kind)], count);
        }
        out.family("apiserver_longrunning_requests", Kind::Gauge, "Watches being served.");
        out.sample(
            "apiserver_longrunning_requests",
            &[("verb", "WATCH")],
            self.watches.load(Ordering::Relaxed),
        );
        for name in ["apiserver_storage_objects", "apiserver_resource_objects"] {
            out.family(name, Kind::Gauge, "Stored objects, by resource.");
            let mut caches: Vec<_> = backend.catalog.caches();
            caches.sort_by(|a, b| (&a.form.group, &a.form.resource).cmp(&(&b.form.group, &b.form.resource)));
            for cache in caches {
                let labels = [("group", cache.form.group.as_str()), ("resource", &cache.form.resource)];
                out.sample(name, &labels, cache.len());
            }
        }
        out.family(
            "apiserver_watch_cache_resource_version",
            Kind::Gauge,
            "The revision the caches have reached.",
        );
        out.sample("apiserver_watch_cache_resource_version", &[], backend.store.revision());
        out.family(
            "apiserver_tls_handshake_errors_total",
            Kind::Counter,
            "Connections whose TLS handshake failed.",
        );
        out.sample(
            "apiserver_tls_handshake_errors_total",
            &[],
            self.handshake_errors.load(Ordering::Relaxed),
        );
        out.family(
            "apiserver_request_panics_total",
            Kind::Counter,
            "Requests answered with an error after a panic.",
        );
        out.sample("apiserver_request_panics_total", &[], self.panics.load(Ordering::Relaxed));
        render_allocation(&mut out, backend);
        backend.admission.render_metrics(&mut out);
        self.more.lock().iter().for_each(|render| render(&mut out));
        self.render_process(&mut out);
        out.finish()
    }

    fn render_requests(&self, out: &mut Exposition) {
        let requests = self.requests.lock();
        out.family(
            "apiserver_request_total",
            Kind::Counter,
            "Requests, by what they were about and how they ended.",
        );
        for (key, stats) in requests.iter() {
            for (code, count) in &stats.by_code {
                let code = code.to_string();
                let mut labels = vec![("code", code.as_str())];
                labels.extend(key.labels());
                out.sample("apiserver_request_total", &labels, *count);
            }
        }
        let name = "apiserver_request_duration_seconds";
        out.family(name, Kind::Histogram, "How long requests took.");
        for (key, stats) in requests.iter() {
            out.histogram(name, &key.labels(), &stats.durations);
        }
    }

    fn render_process(&self, out: &mut Exposition) {
        out.family("kubernetes_build_info", Kind::Gauge, "What this is.");
        let labels = [
            ("git_version", crate::version::GIT_VERSION),
            ("major", crate::version::MAJOR),
            ("minor", crate::version::MINOR),
            ("platform", crate::version::PLATFORM),
        ];
        out.sample("kubernetes_build_info", &labels, 1);
        out.family("process_start_time_seconds", Kind::Gauge, "When the process started.");
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        out.sample("process_start_time_seconds", &[], started.as_secs_f64());
        let Some(usage) = ProcessUsage::read() else { return };
        out.family("process_cpu_seconds_total", Kind::Counter, "CPU time used, in seconds.");
        out.sample("process_cpu_seconds_total", &[], usage.cpu_seconds);
        out.family("process_resident_memory_bytes", Kind::Gauge, "Memory in use.");
        out.sample("process_resident_memory_bytes", &[], usage.resident_bytes);
        out.family("process_virtual_memory_bytes", Kind::Gauge, "Memory mapped.");
        out.sample("process_virtual_memory_bytes", &[], usage.virtual_bytes);
        out.family("process_open_fds", Kind::Gauge, "Open file descriptors.");
        out.sample("process_open_fds", &[], usage.open_fds);
    }
}

fn render_allocation(out: &mut Exposition, backend: &Backend) {
    let ranges = allocation::address_usage(backend);
    let [taken, free] =
        ["allocated", "available"].map(|n| format!("kube_apiserver_clusterip_allocator_{n}_ips"));
    out.family(&taken, Kind::Gauge, "Addresses that services have, by range.");
    ranges.iter().for_each(|range| out.sample(&taken, &[("cidr", &range.of)], range.taken));
    out.family(&free, Kind::Gauge, "Addresses that no service has, by range.");
    ranges.iter().for_each(|range| out.sample(&free, &[("cidr", &range.of)], range.free));
    let ports = allocation::port_usage(backend);
    let [taken, free] =
        ["allocated", "available"].map(|n| format!("kube_apiserver_nodeport_allocator_{n}_ports"));
    out.family(&taken, Kind::Gauge, "Node ports that services have.");
    out.sample(&taken, &[], ports.taken);
    out.family(&free, Kind::Gauge, "Node ports that no service has.");
    out.sample(&free, &[], ports.free);
}

impl RequestKey {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("component", "apiserver"),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }
}

/// The resource usage of this process, from `/proc`.
struct ProcessUsage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: usize,
}

impl ProcessUsage {
    fn read() -> Option<ProcessUsage> {
        // Linux counts CPU time in hundredths and memory in pages of 4 KB on every platform we build for.
        const TICKS: f64 = 100.0;
        const PAGE: u64 = 4096;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
        Some(ProcessUsage {
            cpu_seconds: (number(11)? + number(12)?) as f64 / TICKS,
            virtual_bytes: number(20)?,
            resident_bytes: number(21)? * PAGE,
            open_fds: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        })
    }
}
