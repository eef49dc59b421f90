//! The metrics of the DNS server, under CoreDNS' names, so that its dashboards and alerts work.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

use crate::message::kind;

/// Powers of two, from a quarter of a millisecond.
const SECONDS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    4.096, 8.192,
];
const OCTETS: [f64; 14] =
    [0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3, 64e3];
const TYPES: [(u16, &str); 12] = [
    (kind::A, "A"),
    (kind::AAAA, "AAAA"),
    (kind::SRV, "SRV"),
    (kind::PTR, "PTR"),
    (kind::CNAME, "CNAME"),
    (kind::TXT, "TXT"),
    (kind::SOA, "SOA"),
    (kind::NS, "NS"),
    (15, "MX"),
    (65, "HTTPS"),
    (255, "ANY"),
    (0, "other"),
];
const CODES: [&str; 7] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "other"];
const PROTOCOLS: [&str; 2] = ["udp", "tcp"];
const FAMILIES: [&str; 2] = ["1", "2"];
/// There is one server for all zones.
const SERVER: &str = "dns://:53";

/// The part of the server that answers a query: the cluster's zone, or the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Cluster,
    Forwarded,
}

/// A query and its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) part: Part,
    pub(crate) kind: u16,
    pub(crate) tcp: bool,
    pub(crate) ipv6: bool,
    pub(crate) request: usize,
    pub(crate) reply: usize,
    /// The response code.
    pub(crate) code: u8,
    pub(crate) took: Duration,
}

/// The metrics of one part.
#[derive(Debug)]
struct PartMetrics {
    requests: [[[AtomicU64; TYPES.len()]; 2]; 2],
    responses: [AtomicU64; CODES.len()],
    took: Histogram,
    request_sizes: [Histogram; 2],
    response_sizes: [Histogram; 2],
}

impl Default for PartMetrics {
    fn default() -> PartMetrics {
        let sizes = || [(); 2].map(|()| Histogram::new(&OCTETS));
        PartMetrics {
            requests: Default::default(),
            responses: Default::default(),
            took: Histogram::new(&SECONDS),
            request_sizes: sizes(),
            response_sizes: sizes(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    cluster: PartMetrics,
    elsewhere: PartMetrics,
    hits: [AtomicU64; 2],
    misses: AtomicU64,
    forwarded: Mutex<BTreeMap<(SocketAddr, &'static str), Histogram>>,
}

impl Metrics {
    pub(crate) fn record(&self, exchange: &Exchange) {
        let metrics = match exchange.part {
            Part::Cluster => &self.cluster,
            Part::Forwarded => &self.elsewhere,
        };
        let (tcp, ipv6) = (usize::from(exchange.tcp), usize::from(exchange.ipv6));
        let kind = TYPES.iter().position(|(number, _)| *number == exchange.kind).unwrap_or(TYPES.len() - 1);
        let code = usize::from(exchange.code).min(CODES.len() - 1);
        metrics.requests[tcp][ipv6][kind].fetch_add(1, Ordering::Relaxed);
        metrics.responses[code].fetch_add(1, Ordering::Relaxed);
        metrics.took.observe(exchange.took.as_secs_f64());
        metrics.request_sizes[tcp].observe(exchange.request as f64);
        metrics.response_sizes[tcp].observe(exchange.reply as f64);
    }

    pub(crate) fn hit(&self, denial: bool) {
        self.hits[usize::from(denial)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn forwarded(&self, to: SocketAddr, code: &'static str, took: Duration) {
        let new = || Histogram::new(&SECONDS);
        self.forwarded.lock().entry((to, code)).or_insert_with(new).observe(took.as_secs_f64());
    }

    /// All metrics in Prometheus' text format. `domain` is the cluster domain, with a dot at the end.
    pub(crate) fn text(&self, domain: &str, cached: (usize, usize)) -> String {
        let mut out = Exposition::default();
        let parts = [(domain, "kubernetes", &self.cluster), (".", "forward", &self.elsewhere)];
        write_counts(&mut out, &parts);
        write_durations_and_sizes(&mut out, &parts);
        self.write_cache(&mut out, cached);
        self.write_forwarded(&mut out);
        let name = "coredns_build_info";
        out.family(name, Kind::Gauge, "A metric with a constant '1' value labeled by version.");
        let version = concat!("corten-", env!("CARGO_PKG_VERSION"));
        out.sample(name, &[("goversion", ""), ("revision", ""), ("version", version)], 1);
        out.finish()
    }

    fn write_cache(&self, out: &mut Exposition, cached: (usize, usize)) {
        let labels = [("server", SERVER), ("view", ""), ("zones", ".")];
        let of_type = |kind| [("type", kind), labels[0], labels[1], labels[2]];
        let kinds = ["success", "denial"];
        let hits = self.hits.each_ref().map(|hits| hits.load(Ordering::Relaxed));
        let misses = self.misses.load(Ordering::Relaxed);
        let name = "coredns_cache_entries";
        out.family(name, Kind::Gauge, "The number of elements in the cache.");
        for (kind, count) in kinds.iter().zip([cached.0, cached.1]) {
            out.sample(name, &of_type(kind), count);
        }
        let name = "coredns_cache_hits_total";
        out.family(name, Kind::Counter, "The count of cache hits.");
        for (kind, count) in kinds.iter().zip(hits) {
            out.sample(name, &of_type(kind), count);
        }
        for (name, help, count) in [
            ("coredns_cache_misses_total", "The count of cache misses.", misses),
            ("coredns_cache_requests_total", "The count of cache requests.", misses + hits[0] + hits[1]),
        ] {
            out.family(name, Kind::Counter, help);
            out.sample(name, &labels, count);
        }
    }

    fn write_forwarded(&self, out: &mut Exposition) {
        let name = "coredns_proxy_request_duration_seconds";
        out.family(name, Kind::Histogram, "Histogram of the time each request took.");
        for ((to, code), took) in self.forwarded.lock().iter() {
            let labels = [("proxy_name", "forward"), ("rcode", code), ("to", &to.to_string())];
            out.histogram(name, &labels, took);
        }
    }
}

fn write_counts(out: &mut Exposition, parts: &[(&str, &str, &PartMetrics)]) {
    let name = "coredns_dns_requests_total";
    out.family(name, Kind::Counter, "Counter of DNS requests made per zone, protocol and family.");
    for (zone, _, metrics) in parts {
        for (tcp, protocol) in PROTOCOLS.iter().enumerate() {
            for (ipv6, family) in FAMILIES.iter().enumerate() {
                let counts = metrics.requests[tcp][ipv6].iter().map(|count| count.load(Ordering::Relaxed));
                for ((_, kind), count) in TYPES.iter().zip(counts).filter(|(_, count)| *count > 0) {
                    let labels = [
                        ("family", *family),
                        ("proto", protocol),
                        ("server", SERVER),
                        ("type", kind),
                        ("view", ""),
                        ("zone", zone),
                    ];
                    out.sample(name, &labels, count);
                }
            }
        }
    }
    let name = "coredns_dns_responses_total";
    out.family(name, Kind::Counter, "Counter of response status codes.");
    for (zone, plugin, metrics) in parts {
        let counts = metrics.responses.iter().map(|count| count.load(Ordering::Relaxed));
        for (code, count) in CODES.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let labels =
                [("plugin", *plugin), ("rcode", code), ("server", SERVER), ("view", ""), ("zone", zone)];
            out.sample(name, &labels, count);
        }
    }
}

fn write_durations_and_sizes(out: &mut Exposition, parts: &[(&str, &str, &PartMetrics)]) {
    let name = "coredns_dns_request_duration_seconds";
    out.family(name, Kind::Histogram, "Histogram of the time (in seconds) each request took per zone.");
    for (zone, _, metrics) in parts {
        out.histogram(name, &[("server", SERVER), ("view", ""), ("zone", zone)], &metrics.took);
    }
    type Sizes = fn(&PartMetrics) -> &[Histogram; 2];
    let request: Sizes = |metrics| &metrics.request_sizes;
    let response: Sizes = |metrics| &metrics.response_sizes;
    for (name, help, sizes) in [
        ("coredns_dns_request_size_bytes", "Size of the request in bytes per zone and protocol.", request),
        ("coredns_dns_response_size_bytes", "Size of the returned response in bytes.", response),
    ] {
        out.family(name, Kind::Histogram, help);
        for (zone, _, metrics) in parts {
            for (protocol, sizes) in PROTOCOLS.iter().zip(sizes(metrics)) {
                let labels = [("proto", *protocol), ("server", SERVER), ("view", ""), ("zone", zone)];
                out.histogram(name, &labels, sizes);
            }
        }
    }
}
