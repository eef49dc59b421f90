//! What a proxy counts, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;

use crate::config::Mode;

/// Upstream's: from a millisecond, doubling.
const SYNC: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// What is counted, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    ConntrackDeleted,
    ConntrackDuration,
    NetworkProgramming,
    Healthz,
    Livez,
    FullDuration,
    PartialDuration,
    Duration,
    EndpointChangesPending,
    EndpointChanges,
    IptablesLast,
    IptablesPartialFailures,
    IptablesFailures,
    IptablesRules,
    LastQueued,
    LastSynced,
    NftablesCleanupFailures,
    NftablesFailures,
    NoLocalEndpoints,
    ServiceChangesPending,
    ServiceChanges,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Metric {
    fn describe(self) -> (&'static str, Kind, &'static str) {
        use Kind::{Counter, Gauge, Histogram};
        match self {
            Metric::ConntrackDeleted => (
                "conntrack_reconciler_deleted_entries_total",
                Counter,
                "Cumulative conntrack flows deleted by conntrack reconciler",
            ),
            Metric::ConntrackDuration => (
                "conntrack_reconciler_sync_duration_seconds",
                Histogram,
                "ReconcileConntrackFlowsLatency latency in seconds",
            ),
            Metric::NetworkProgramming => (
                "network_programming_duration_seconds",
                Histogram,
                "In Cluster Network Programming Latency in seconds",
            ),
            Metric::Healthz => ("proxy_healthz_total", Counter, "Cumulative proxy healthz HTTP status"),
            Metric::Livez => ("proxy_livez_total", Counter, "Cumulative proxy livez HTTP status"),
            Metric::FullDuration => (
                "sync_full_proxy_rules_duration_seconds",
                Histogram,
                "SyncProxyRules latency in seconds for full resyncs",
            ),
            Metric::PartialDuration => (
                "sync_partial_proxy_rules_duration_seconds",
                Histogram,
                "SyncProxyRules latency in seconds for partial resyncs",
            ),
            Metric::Duration => {
                ("sync_proxy_rules_duration_seconds", Histogram, "SyncProxyRules latency in seconds")
            }
            Metric::EndpointChangesPending => {
                ("sync_proxy_rules_endpoint_changes_pending", Gauge, "Pending proxy rules Endpoint changes")
            }
            Metric::EndpointChanges => (
                "sync_proxy_rules_endpoint_changes_total",
                Counter,
                "Cumulative proxy rules Endpoint changes",
            ),
            Metric::IptablesLast => (
                "sync_proxy_rules_iptables_last",
                Gauge,
                "Number of iptables rules written by kube-proxy in last sync",
            ),
            Metric::IptablesPartialFailures => (
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                Counter,
                "Cumulative proxy iptables partial restore failures",
            ),
            Metric::IptablesFailures => (
                "sync_proxy_rules_iptables_restore_failures_total",
                Counter,
                "Cumulative proxy iptables restore failures",
            ),
            Metric::IptablesRules => (
                "sync_proxy_rules_iptables_total",
                Gauge,
                "Total number of iptables rules owned by kube-proxy",
            ),
            Metric::LastQueued => (
                "sync_proxy_rules_last_queued_timestamp_seconds",
                Gauge,
                "The last time a sync of proxy rules was queued",
            ),
            Metric::LastSynced => (
                "sync_proxy_rules_last_timestamp_seconds",
                Gauge,
                "The last time proxy rules were successfully synced",
            ),
            Metric::NftablesCleanupFailures => (
                "sync_proxy_rules_nftables_cleanup_failures_total",
                Counter,
                "Cumulative proxy nftables cleanup failures",
            ),
            Metric::NftablesFailures => (
                "sync_proxy_rules_nftables_sync_failures_total",
                Counter,
                "Cumulative proxy nftables sync failures",
            ),
            Metric::NoLocalEndpoints => (
                "sync_proxy_rules_no_local_endpoints_total",
                Gauge,
                "Number of services with a Local traffic policy and no endpoints",
            ),
            Metric::ServiceChangesPending => {
                ("sync_proxy_rules_service_changes_pending", Gauge, "Pending proxy rules Service changes")
            }
            Metric::ServiceChanges => {
                ("sync_proxy_rules_service_changes_total", Counter, "Cumulative proxy rules Service changes")
            }
        }
    }

    /// Upper limits of what a histogram tells apart.
    fn limits(self) -> Vec<f64> {
        if self != Metric::NetworkProgramming {
            return SYNC.to_vec();
        }
        let seconds = (1..60).chain((60..120).step_by(5)).chain((120..=300).step_by(30));
        [0.25, 0.5].into_iter().chain(seconds.map(f64::from)).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<Metric, BTreeMap<String, Figure>>>);

#[derive(Debug, Default)]
struct Figure {
    /// The value, or the sum of a histogram's.
    value: f64,
    count: u64,
    /// How many were within each limit.
    within: Vec<u64>,
}

/// How a family is called in labels.
pub(crate) fn family(ipv4: bool) -> String {
    format!("ip_family=\"{}\"", if ipv4 { "IPv4" } else { "IPv6" })
}

impl Metrics {
    pub(crate) fn add(&self, metric: Metric, labels: &str, more: f64) {
        self.change(metric, labels, |figure| figure.value += more);
    }

    pub(crate) fn set(&self, metric: Metric, labels: &str, value: f64) {
        self.change(metric, labels, |figure| figure.value = value);
    }

    pub(crate) fn observe(&self, metric: Metric, labels: &str, seconds: f64) {
        self.change(metric, labels, |figure| {
            let limits = metric.limits();
            figure.within.resize(limits.len(), 0);
            for (within, _) in figure.within.iter_mut().zip(limits).filter(|(_, limit)| seconds <= *limit) {
                *within += 1;
            }
            figure.count += 1;
            figure.value += seconds;
        });
    }

    /// Failures are shown before there are any.
    pub(crate) fn prepare(&self, mode: Mode) {
        let failures: &[Metric] = match mode {
            Mode::Nftables => &[Metric::NftablesFailures, Metric::NftablesCleanupFailures],
            Mode::Iptables => &[Metric::IptablesFailures, Metric::IptablesPartialFailures],
        };
        for ipv4 in [true, false] {
            failures.iter().for_each(|metric| self.add(*metric, &family(ipv4), 0.0));
        }
    }

    fn change(&self, metric: Metric, labels: &str, change: impl FnOnce(&mut Figure)) {
        let mut figures = self.0.lock();
        change(figures.entry(metric).or_default().entry(labels.to_owned()).or_default());
    }

    /// As Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (metric, figures) in self.0.lock().iter() {
            let (name, kind, help) = metric.describe();
            let name = format!("kubeproxy_{name}");
            let shown = format!("{kind:?}").to_lowercase();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} {shown}");
            for (labels, figure) in figures {
                match kind {
                    Kind::Counter | Kind::Gauge => {
                        let _ = writeln!(out, "{name}{} {}", braced(labels), figure.value);
                    }
                    Kind::Histogram => histogram(&mut out, &name, labels, figure, &metric.limits()),
                }
            }
        }
        out
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn histogram(out: &mut String, name: &str, labels: &str, figure: &Figure, limits: &[f64]) {
    let separator = if labels.is_empty() { "" } else { "," };
    for (limit, within) in limits.iter().zip(&figure.within) {
        let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"{limit}\"}} {within}");
    }
    let _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {}", figure.count);
    let _ = writeln!(out, "{name}_sum{} {}", braced(labels), figure.value);
    let _ = writeln!(out, "{name}_count{} {}", braced(labels), figure.count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.prepare(Mode::Nftables);
        metrics.observe(Metric::Duration, &family(true), 0.003);
        metrics.set(Metric::EndpointChangesPending, "", 2.0);
        let text = metrics.text();
        for line in [
            "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram",
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.002\"} 0",
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1",
            "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending 2",
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn programming_takes_up_to_five_minutes() {
        let limits = Metric::NetworkProgramming.limits();
        assert_eq!((limits.len(), limits[2], limits.last().copied()), (80, 1.0, Some(300.0)));
    }
}
