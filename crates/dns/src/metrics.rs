//! What is counted, and how Prometheus reads it: under CoreDNS' names, so that dashboards and alerts go on working.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
/// All names are this server's: there is one.
const SERVER: &str = "dns://:53";

/// Whose names a question was about, and so who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Cluster,
    Elsewhere,
}

/// One question and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) part: Part,
    pub(crate) kind: u16,
    pub(crate) tcp: bool,
    pub(crate) ipv6: bool,
    pub(crate) request: usize,
    pub(crate) reply: usize,
    /// How it ended, as it is in the reply.
    pub(crate) code: u8,
    pub(crate) took: Duration,
}

#[derive(Debug)]
struct Histogram<const N: usize> {
    /// Each counts those that no smaller one does.
    buckets: [AtomicU64; N],
    beyond: AtomicU64,
    /// In millionths.
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        let buckets = std::array::from_fn(|_| AtomicU64::default());
        Histogram { buckets, beyond: AtomicU64::default(), sum: AtomicU64::default() }
    }
}

impl<const N: usize> Histogram<N> {
    fn observe(&self, limits: &[f64; N], value: f64) {
        let bucket = limits.iter().position(|limit| value <= *limit);
        bucket.map_or(&self.beyond, |at| &self.buckets[at]).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str, limits: &[f64; N]) {
        let mut count = 0;
        for (bucket, limit) in self.buckets.iter().zip(limits) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{limit}\"}} {count}");
        }
        count += self.beyond.load(Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
    }
}

/// The numbers of one part.
#[derive(Debug, Default)]
struct Figures {
    requests: [[[AtomicU64; TYPES.len()]; 2]; 2],
    responses: [AtomicU64; CODES.len()],
    took: Histogram<{ SECONDS.len() }>,
    request_sizes: [Histogram<{ OCTETS.len() }>; 2],
    response_sizes: [Histogram<{ OCTETS.len() }>; 2],
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    cluster: Figures,
    elsewhere: Figures,
    hits: [AtomicU64; 2],
    misses: AtomicU64,
    forwarded: Mutex<BTreeMap<(SocketAddr, &'static str), Histogram<{ SECONDS.len() }>>>,
}

impl Metrics {
    pub(crate) fn asked(&self, asked: &Asked) {
        let figures = match asked.part {
            Part::Cluster => &self.cluster,
            Part::Elsewhere => &self.elsewhere,
        };
        let (tcp, ipv6) = (usize::from(asked.tcp), usize::from(asked.ipv6));
        let kind = TYPES.iter().position(|(number, _)| *number == asked.kind).unwrap_or(TYPES.len() - 1);
        let code = usize::from(asked.code).min(CODES.len() - 1);
        figures.requests[tcp][ipv6][kind].fetch_add(1, Ordering::Relaxed);
        figures.responses[code].fetch_add(1, Ordering::Relaxed);
        figures.took.observe(&SECONDS, asked.took.as_secs_f64());
        figures.request_sizes[tcp].observe(&OCTETS, asked.request as f64);
        figures.response_sizes[tcp].observe(&OCTETS, asked.reply as f64);
    }

    pub(crate) fn hit(&self, denial: bool) {
        self.hits[usize::from(denial)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn forwarded(&self, to: SocketAddr, code: &'static str, took: Duration) {
        self.forwarded.lock().entry((to, code)).or_default().observe(&SECONDS, took.as_secs_f64());
    }

    /// All of it in Prometheus' text form. `domain` is what the cluster's names end in, with a dot at the end.
    pub(crate) fn text(&self, domain: &str, kept: (usize, usize)) -> String {
        let mut out = String::new();
        let parts = [(domain, "kubernetes", &self.cluster), (".", "forward", &self.elsewhere)];
        self.write_counts(&mut out, &parts);
        self.write_sizes(&mut out, &parts);
        self.write_cache(&mut out, kept);
        self.write_forwarded(&mut out);
        let _ = writeln!(
            out,
            "# HELP coredns_build_info A metric with a constant '1' value labeled by version.\n\
             # TYPE coredns_build_info gauge\n\
             coredns_build_info{{goversion=\"\",revision=\"\",version=\"corten-{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        );
        out
    }

    fn write_counts(&self, out: &mut String, parts: &[(&str, &str, &Figures)]) {
        describe(
            out,
            "coredns_dns_requests_total",
            "counter",
            "Counter of DNS requests made per zone, protocol and family.",
        );
        for (zone, _, figures) in parts {
            for (tcp, protocol) in PROTOCOLS.iter().enumerate() {
                for (ipv6, family) in FAMILIES.iter().enumerate() {
                    let counts =
                        figures.requests[tcp][ipv6].iter().map(|count| count.load(Ordering::Relaxed));
                    for ((_, kind), count) in TYPES.iter().zip(counts).filter(|(_, count)| *count > 0) {
                        let _ = writeln!(
                            out,
                            "coredns_dns_requests_total{{family=\"{family}\",proto=\"{protocol}\",server=\"{SERVER}\",\
                             type=\"{kind}\",view=\"\",zone=\"{zone}\"}} {count}"
                        );
                    }
                }
            }
        }
        describe(out, "coredns_dns_responses_total", "counter", "Counter of response status codes.");
        for (zone, plugin, figures) in parts {
            let counts = figures.responses.iter().map(|count| count.load(Ordering::Relaxed));
            for (code, count) in CODES.iter().zip(counts).filter(|(_, count)| *count > 0) {
                let _ = writeln!(
                    out,
                    "coredns_dns_responses_total{{plugin=\"{plugin}\",rcode=\"{code}\",server=\"{SERVER}\",view=\"\",\
                     zone=\"{zone}\"}} {count}"
                );
            }
        }
    }

    fn write_sizes(&self, out: &mut String, parts: &[(&str, &str, &Figures)]) {
        let name = "coredns_dns_request_duration_seconds";
        describe(out, name, "histogram", "Histogram of the time (in seconds) each request took per zone.");
        for (zone, _, figures) in parts {
            let labels = format!("server=\"{SERVER}\",view=\"\",zone=\"{zone}\"");
            figures.took.write(out, name, &labels, &SECONDS);
        }
        type Sizes = fn(&Figures) -> &[Histogram<{ OCTETS.len() }>; 2];
        let request: Sizes = |figures| &figures.request_sizes;
        let response: Sizes = |figures| &figures.response_sizes;
        for (name, help, sizes) in [
            (
                "coredns_dns_request_size_bytes",
                "Size of the request in bytes per zone and protocol.",
                request,
            ),
            ("coredns_dns_response_size_bytes", "Size of the returned response in bytes.", response),
        ] {
            describe(out, name, "histogram", help);
            for (zone, _, figures) in parts {
                for (protocol, sizes) in PROTOCOLS.iter().zip(sizes(figures)) {
                    let labels =
                        format!("proto=\"{protocol}\",server=\"{SERVER}\",view=\"\",zone=\"{zone}\"");
                    sizes.write(out, name, &labels, &OCTETS);
                }
            }
        }
    }

    fn write_cache(&self, out: &mut String, kept: (usize, usize)) {
        let labels = format!("server=\"{SERVER}\",view=\"\",zones=\".\"");
        let kinds = ["success", "denial"];
        let hits = self.hits.each_ref().map(|hits| hits.load(Ordering::Relaxed));
        let misses = self.misses.load(Ordering::Relaxed);
        describe(out, "coredns_cache_entries", "gauge", "The number of elements in the cache.");
        for (kind, count) in kinds.iter().zip([kept.0, kept.1]) {
            let _ = writeln!(out, "coredns_cache_entries{{type=\"{kind}\",{labels}}} {count}");
        }
        describe(out, "coredns_cache_hits_total", "counter", "The count of cache hits.");
        for (kind, count) in kinds.iter().zip(hits) {
            let _ = writeln!(out, "coredns_cache_hits_total{{type=\"{kind}\",{labels}}} {count}");
        }
        describe(out, "coredns_cache_misses_total", "counter", "The count of cache misses.");
        let _ = writeln!(out, "coredns_cache_misses_total{{{labels}}} {misses}");
        describe(out, "coredns_cache_requests_total", "counter", "The count of cache requests.");
        let _ = writeln!(out, "coredns_cache_requests_total{{{labels}}} {}", misses + hits[0] + hits[1]);
    }

    fn write_forwarded(&self, out: &mut String) {
        let name = "coredns_proxy_request_duration_seconds";
        describe(out, name, "histogram", "Histogram of the time each request took.");
        for ((to, code), took) in self.forwarded.lock().iter() {
            let labels = format!("proxy_name=\"forward\",rcode=\"{code}\",to=\"{to}\"");
            took.write(out, name, &labels, &SECONDS);
        }
    }
}

fn describe(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
