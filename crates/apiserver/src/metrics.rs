//! The numbers behind `/metrics`, under upstream's names, in Prometheus' text form.
//!
//! Counting must cost next to nothing: one short lock per request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::allocation;
use crate::call::Backend;
use crate::in_flight::Lanes;

/// Upstream's buckets for request durations.
const BUCKETS: [f64; 18] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

/// What a request was, as metrics group it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    pub verb: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    pub scope: &'static str,
}

#[derive(Default)]
struct RequestStats {
    by_code: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

pub(crate) struct Metrics {
    started: SystemTime,
    requests: Mutex<BTreeMap<RequestKey, RequestStats>>,
    pub watches: AtomicI64,
    pub handshake_errors: AtomicU64,
    pub panics: AtomicU64,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            started: SystemTime::now(),
            requests: Mutex::default(),
            watches: AtomicI64::new(0),
            handshake_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, key: RequestKey, code: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut requests = self.requests.lock();
        let stats = requests.entry(key).or_default();
        *stats.by_code.entry(code).or_default() += 1;
        stats.count += 1;
        stats.sum += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|limit| seconds <= *limit) {
            stats.buckets[bucket] += 1;
        }
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn render(&self, backend: &Backend, lanes: &Lanes) -> String {
        let mut out = Exposition::default();
        self.render_requests(&mut out);
        let [running, refused] = ["apiserver_current_inflight_requests", "apiserver_dropped_requests_total"];
        out.family(running, "gauge", "Requests being served, by kind.");
        for (kind, count, _) in lanes.counts() {
            out.sample(running, &[("request_kind", kind)], count);
        }
        out.family(refused, "counter", "Requests turned away because there were too many, by kind.");
        for (kind, _, count) in lanes.counts() {
            out.sample(refused, &[("request_kind", kind)], count);
        }
        out.family("apiserver_longrunning_requests", "gauge", "Watches being served.");
        out.sample(
            "apiserver_longrunning_requests",
            &[("verb", "WATCH")],
            self.watches.load(Ordering::Relaxed),
        );
        for name in ["apiserver_storage_objects", "apiserver_resource_objects"] {
            out.family(name, "gauge", "Stored objects, by resource.");
            let mut caches: Vec<_> = backend.catalog.caches().collect();
            caches.sort_by_key(|c| (c.form.rules.group, c.form.rules.resource));
            for cache in caches {
                let rules = cache.form.rules;
                let labels = [("group", rules.group), ("resource", rules.resource)];
                out.sample(name, &labels, cache.len());
            }
        }
        out.family(
            "apiserver_watch_cache_resource_version",
            "gauge",
            "The revision the caches have reached.",
        );
        out.sample("apiserver_watch_cache_resource_version", &[], backend.store.revision());
        out.family(
            "apiserver_tls_handshake_errors_total",
            "counter",
            "Connections whose TLS handshake failed.",
        );
        out.sample(
            "apiserver_tls_handshake_errors_total",
            &[],
            self.handshake_errors.load(Ordering::Relaxed),
        );
        out.family(
            "apiserver_request_panics_total",
            "counter",
            "Requests answered with an error after a panic.",
        );
        out.sample("apiserver_request_panics_total", &[], self.panics.load(Ordering::Relaxed));
        render_allocation(&mut out, backend);
        self.render_process(&mut out);
        out.text
    }

    fn render_requests(&self, out: &mut Exposition) {
        let requests = self.requests.lock();
        out.family(
            "apiserver_request_total",
            "counter",
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
        out.family(name, "histogram", "How long requests took.");
        for (key, stats) in requests.iter() {
            let mut below = 0;
            for (limit, count) in BUCKETS.iter().zip(stats.buckets) {
                below += count;
                let limit = limit.to_string();
                let mut labels = key.labels();
                labels.push(("le", &limit));
                out.sample(&format!("{name}_bucket"), &labels, below);
            }
            let mut labels = key.labels();
            labels.push(("le", "+Inf"));
            out.sample(&format!("{name}_bucket"), &labels, stats.count);
            out.sample(&format!("{name}_sum"), &key.labels(), stats.sum);
            out.sample(&format!("{name}_count"), &key.labels(), stats.count);
        }
    }

    fn render_process(&self, out: &mut Exposition) {
        out.family("kubernetes_build_info", "gauge", "What this is.");
        let labels = [
            ("git_version", crate::version::GIT_VERSION),
            ("major", crate::version::MAJOR),
            ("minor", crate::version::MINOR),
            ("platform", crate::version::PLATFORM),
        ];
        out.sample("kubernetes_build_info", &labels, 1);
        out.family("process_start_time_seconds", "gauge", "When the process started.");
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        out.sample("process_start_time_seconds", &[], started.as_secs_f64());
        let Some(usage) = ProcessUsage::read() else { return };
        out.family("process_cpu_seconds_total", "counter", "CPU time used, in seconds.");
        out.sample("process_cpu_seconds_total", &[], usage.cpu_seconds);
        out.family("process_resident_memory_bytes", "gauge", "Memory in use.");
        out.sample("process_resident_memory_bytes", &[], usage.resident_bytes);
        out.family("process_virtual_memory_bytes", "gauge", "Memory mapped.");
        out.sample("process_virtual_memory_bytes", &[], usage.virtual_bytes);
        out.family("process_open_fds", "gauge", "Open file descriptors.");
        out.sample("process_open_fds", &[], usage.open_fds);
    }
}

fn render_allocation(out: &mut Exposition, backend: &Backend) {
    let ranges = allocation::address_usage(backend);
    let [taken, free] =
        ["allocated", "available"].map(|n| format!("kube_apiserver_clusterip_allocator_{n}_ips"));
    out.family(&taken, "gauge", "Addresses that services have, by range.");
    ranges.iter().for_each(|range| out.sample(&taken, &[("cidr", &range.of)], range.taken));
    out.family(&free, "gauge", "Addresses that no service has, by range.");
    ranges.iter().for_each(|range| out.sample(&free, &[("cidr", &range.of)], range.free));
    let ports = allocation::port_usage(backend);
    let [taken, free] =
        ["allocated", "available"].map(|n| format!("kube_apiserver_nodeport_allocator_{n}_ports"));
    out.family(&taken, "gauge", "Node ports that services have.");
    out.sample(&taken, &[], ports.taken);
    out.family(&free, "gauge", "Node ports that no service has.");
    out.sample(&free, &[], ports.free);
}

impl RequestKey {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("component", "apiserver"),
            ("group", self.group),
            ("resource", self.resource),
            ("scope", self.scope),
            ("subresource", self.subresource),
            ("verb", self.verb),
            ("version", self.version),
        ]
    }
}

#[derive(Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text.push_str(name);
        if !labels.is_empty() {
            let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
            let _ = write!(self.text, "{{{}}}", pairs.join(","));
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// What `/proc` says of this process.
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
