//! The proxy's metrics, under upstream's names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use corten_serving::metrics::{Exposition, Histogram, Kind};
use parking_lot::Mutex;

use crate::config::Mode;

/// Upstream's: from a millisecond, doubling.
const SYNC: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Upstream's: every second up to one minute, every five up to two, every thirty up to five.
static NETWORK_PROGRAMMING: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let seconds = (1..60).chain((60..120).step_by(5)).chain((120..=300).step_by(30));
    [0.25, 0.5].into_iter().chain(seconds.map(f64::from)).collect()
});

/// The metrics, in the order in which they are shown.
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

    /// The upper bounds of a histogram's buckets.
    fn bounds(self) -> &'static [f64] {
        if self == Metric::NetworkProgramming { &NETWORK_PROGRAMMING } else { &SYNC }
    }
}

/// Names and values of labels, in the order in which they are shown.
type Labels = Vec<Label>;
pub(crate) type Label = (&'static str, &'static str);

#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<Metric, BTreeMap<Labels, Recorded>>>);

#[derive(Debug)]
enum Recorded {
    /// A counter or a gauge.
    Value(f64),
    Histogram(Histogram),
}

/// The label of an IP family.
pub(crate) fn family(ipv4: bool) -> Label {
    ("ip_family", if ipv4 { "IPv4" } else { "IPv6" })
}

impl Metrics {
    pub(crate) fn add(&self, metric: Metric, labels: &[Label], more: f64) {
        self.change(metric, labels, |value| *value += more);
    }

    pub(crate) fn set(&self, metric: Metric, labels: &[Label], value: f64) {
        self.change(metric, labels, |recorded| *recorded = value);
    }

    pub(crate) fn observe(&self, metric: Metric, labels: &[Label], seconds: f64) {
        let new = || Recorded::Histogram(Histogram::new(metric.bounds()));
        let mut metrics = self.0.lock();
        if let Recorded::Histogram(histogram) =
            metrics.entry(metric).or_default().entry(labels.to_vec()).or_insert_with(new)
        {
            histogram.observe(seconds);
        }
    }

    /// Shows failure counters as 0 before there is a failure.
    pub(crate) fn prepare(&self, mode: Mode) {
        let failures: &[Metric] = match mode {
            Mode::Nftables => &[Metric::NftablesFailures, Metric::NftablesCleanupFailures],
            Mode::Iptables => &[Metric::IptablesFailures, Metric::IptablesPartialFailures],
        };
        for ipv4 in [true, false] {
            failures.iter().for_each(|metric| self.add(*metric, &[family(ipv4)], 0.0));
        }
    }

    fn change(&self, metric: Metric, labels: &[Label], change: impl FnOnce(&mut f64)) {
        let mut metrics = self.0.lock();
        let recorded =
            metrics.entry(metric).or_default().entry(labels.to_vec()).or_insert(Recorded::Value(0.0));
        if let Recorded::Value(value) = recorded {
            change(value);
        }
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut out = Exposition::default();
        for (metric, recorded) in self.0.lock().iter() {
            let (name, kind, help) = metric.describe();
            let name = format!("kubeproxy_{name}");
            out.family(&name, kind, &format!("[ALPHA] {help}"));
            for (labels, recorded) in recorded {
                match recorded {
                    Recorded::Value(value) => out.sample(&name, labels, value),
                    Recorded::Histogram(histogram) => out.histogram(&name, labels, histogram),
                }
            }
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_in_prometheus_text_format() {
        let metrics = Metrics::default();
        metrics.prepare(Mode::Nftables);
        metrics.observe(Metric::Duration, &[family(true)], 0.003);
        metrics.set(Metric::EndpointChangesPending, &[], 2.0);
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
    fn network_programming_has_buckets_up_to_five_minutes() {
        let bounds = Metric::NetworkProgramming.bounds();
        assert_eq!((bounds.len(), bounds[2], bounds.last().copied()), (80, 1.0, Some(300.0)));
    }
}
