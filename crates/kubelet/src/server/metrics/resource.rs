//! `/metrics/resource`: CPU, memory and swap of the node, its pods and their containers, for autoscaling.

use corten_container::{CpuUsage, MemoryUsage, SwapUsage};
use corten_serving::metrics::{Exposition, Kind};
use jiff::Timestamp;

use crate::kubelet::Kubelet;
use crate::stats::{self, Detail, PodStats, Summary};

const NANOSECONDS: f64 = 1e9;

pub(super) async fn render(kubelet: &Kubelet) -> String {
    let mut text = Exposition::default();
    let failed = match stats::summary(kubelet, Detail::CpuAndMemory).await {
        Ok(summary) => {
            write(&mut text, &summary);
            false
        }
        Err(err) => {
            tracing::warn!(%err, "cannot collect resource metrics");
            true
        }
    };
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    text.single("resource_scrape_error", Kind::Gauge, help, f64::from(u8::from(failed)));
    text.finish()
}

/// A sample: its labels, value and timestamp.
struct Sample<'a> {
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
    at: Option<Timestamp>,
}

/// A value of a container, with its timestamp if it has one.
type OfContainer = fn(&stats::ContainerStats) -> Option<(f64, Option<Timestamp>)>;

fn timed(value: Option<(f64, Timestamp)>) -> Option<(f64, Option<Timestamp>)> {
    value.map(|(value, at)| (value, Some(at)))
}

fn write(text: &mut Exposition, summary: &Summary) {
    let node = &summary.node;
    let of_node = |value: Option<(f64, Timestamp)>| {
        value.map(|(value, at)| Sample { labels: Vec::new(), value, at: Some(at) }).into_iter().collect()
    };
    let containers = |of: OfContainer| {
        let mut samples = Vec::new();
        for pod in &summary.pods {
            for container in &pod.containers {
                let mut labels = vec![("container", container.name.as_str())];
                labels.extend(named(pod));
                samples.extend(of(container).map(|(value, at)| Sample { labels, value, at }));
            }
        }
        samples
    };
    let pods = |of: fn(&PodStats) -> Option<(f64, Timestamp)>| {
        let sample = |pod| of(pod).map(|(value, at)| Sample { labels: named(pod), value, at: Some(at) });
        summary.pods.iter().filter_map(sample).collect::<Vec<_>>()
    };
    let families: [(&str, Kind, &str, Vec<Sample<'_>>); 10] = [
        (
            "container_cpu_usage_seconds_total",
            Kind::Counter,
            "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
            containers(|container| timed(cpu(container.cpu.as_ref()))),
        ),
        (
            "container_memory_working_set_bytes",
            Kind::Gauge,
            "[STABLE] Current working set of the container in bytes",
            containers(|container| timed(memory(container.memory.as_ref()))),
        ),
        (
            "container_start_time_seconds",
            Kind::Gauge,
            "[STABLE] Start time of the container since unix epoch in seconds",
            containers(|container| Some((container.started.as_nanosecond() as f64 / NANOSECONDS, None))),
        ),
        (
            "container_swap_usage_bytes",
            Kind::Gauge,
            "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
            containers(|container| timed(swap(container.swap.as_ref()))),
        ),
        (
            "node_cpu_usage_seconds_total",
            Kind::Counter,
            "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
            of_node(cpu(node.cpu.as_ref())),
        ),
        (
            "node_memory_working_set_bytes",
            Kind::Gauge,
            "[STABLE] Current working set of the node in bytes",
            of_node(memory(node.memory.as_ref())),
        ),
        (
            "node_swap_usage_bytes",
            Kind::Gauge,
            "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
            of_node(swap(node.swap.as_ref())),
        ),
        (
            "pod_cpu_usage_seconds_total",
            Kind::Counter,
            "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
            pods(|pod| cpu(pod.cpu.as_ref())),
        ),
        (
            "pod_memory_working_set_bytes",
            Kind::Gauge,
            "[STABLE] Current working set of the pod in bytes",
            pods(|pod| memory(pod.memory.as_ref())),
        ),
        (
            "pod_swap_usage_bytes",
            Kind::Gauge,
            "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
            pods(|pod| swap(pod.swap.as_ref())),
        ),
    ];
    for (name, kind, help, samples) in families {
        if samples.is_empty() {
            continue;
        }
        text.family(name, kind, help);
        for sample in samples {
            text.sample_at(name, &sample.labels, sample.value, sample.at);
        }
    }
}

fn named(pod: &PodStats) -> Vec<(&str, &str)> {
    vec![("namespace", pod.pod.namespace()), ("pod", pod.pod.name())]
}

fn cpu(usage: Option<&CpuUsage>) -> Option<(f64, Timestamp)> {
    let usage = usage?;
    Some((usage.usage_core_nano_seconds? as f64 / NANOSECONDS, usage.timestamp))
}

fn memory(usage: Option<&MemoryUsage>) -> Option<(f64, Timestamp)> {
    let usage = usage?;
    Some((usage.working_set_bytes? as f64, usage.timestamp))
}

fn swap(usage: Option<&SwapUsage>) -> Option<(f64, Timestamp)> {
    let usage = usage?;
    Some((usage.usage_bytes? as f64, usage.timestamp))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::{Pod, Source};

    #[test]
    fn every_family_is_written_once_with_all_its_samples() {
        let at = Timestamp::from_second(100).unwrap();
        let cpu = |total| {
            Some(CpuUsage { timestamp: at, usage_core_nano_seconds: Some(total), ..CpuUsage::default() })
        };
        let container = |name: &str| stats::ContainerStats {
            name: name.to_owned(),
            started: Timestamp::from_millisecond(50_500).unwrap(),
            cpu: cpu(1_500_000_000),
            memory: Some(MemoryUsage {
                timestamp: at,
                working_set_bytes: Some(4096),
                ..MemoryUsage::default()
            }),
            ..stats::ContainerStats::default()
        };
        let pod = PodStats {
            pod: Pod::new(value!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}), Source::Api),
            sandbox_id: String::new(),
            started: at,
            containers: vec![container("a"), container("b")],
            cpu: cpu(3_000_000_000),
            memory: None,
            swap: None,
            io: None,
            network: None,
            volumes: Vec::new(),
            ephemeral: None,
            processes: None,
        };
        let node = stats::NodeStats { cpu: cpu(7_000_000_000), ..stats::NodeStats::default() };
        let mut text = Exposition::default();
        write(&mut text, &Summary { node, pods: vec![pod] });
        let text = text.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "container_cpu_usage_seconds_total{container=\"a\",namespace=\"n\",pod=\"p\"} 1.5 100000",
            "container_cpu_usage_seconds_total{container=\"b\",namespace=\"n\",pod=\"p\"} 1.5 100000",
            "container_memory_working_set_bytes{container=\"a\",namespace=\"n\",pod=\"p\"} 4096 100000",
            "container_memory_working_set_bytes{container=\"b\",namespace=\"n\",pod=\"p\"} 4096 100000",
            "container_start_time_seconds{container=\"a\",namespace=\"n\",pod=\"p\"} 50.5",
            "container_start_time_seconds{container=\"b\",namespace=\"n\",pod=\"p\"} 50.5",
            "node_cpu_usage_seconds_total 7 100000",
            "pod_cpu_usage_seconds_total{namespace=\"n\",pod=\"p\"} 3 100000",
        ];
        assert_eq!(samples, expected);
        assert_eq!(text.matches("# TYPE container_cpu_usage_seconds_total counter").count(), 1);
    }
}
