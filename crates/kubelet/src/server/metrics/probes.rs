//! `/metrics/probes`: the results and durations of probes, by container.

use corten_serving::metrics::{Exposition, Kind};

use crate::kubelet::Kubelet;
use crate::probes::{ProbeCounts, ProbeLabels, SECONDS};

const TOTAL: &str = "prober_probe_total";
const DURATION: &str = "prober_probe_duration_seconds";

pub(super) fn render(kubelet: &Kubelet) -> String {
    write(&kubelet.probes.counts())
}

fn write(counts: &[(ProbeLabels, ProbeCounts)]) -> String {
    let mut text = Exposition::default();
    if counts.is_empty() {
        return text.finish();
    }
    text.family(DURATION, Kind::Histogram, "[ALPHA] Duration in seconds for a probe response.");
    for (labels, counts) in counts.iter().filter(|(_, counts)| counts.successful + counts.unknown > 0) {
        write_duration(&mut text, labels, counts);
    }
    let help =
        "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    text.family(TOTAL, Kind::Counter, help);
    for (labels, counts) in counts {
        let results =
            [("failed", counts.failed), ("successful", counts.successful), ("unknown", counts.unknown)];
        for (result, count) in results.into_iter().filter(|(_, count)| *count > 0) {
            let labels = [
                ("container", labels.container.as_str()),
                ("namespace", labels.namespace.as_str()),
                ("pod", labels.pod.as_str()),
                ("pod_uid", labels.pod_uid.as_str()),
                ("probe_type", labels.probe),
                ("result", result),
            ];
            text.sample(TOTAL, &labels, count as f64);
        }
    }
    text.finish()
}

fn write_duration(text: &mut Exposition, labels: &ProbeLabels, counts: &ProbeCounts) {
    let labels = [
        ("container", labels.container.as_str()),
        ("namespace", labels.namespace.as_str()),
        ("pod", labels.pod.as_str()),
        ("probe_type", labels.probe),
    ];
    let all = counts.successful + counts.unknown;
    let steps = SECONDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (most, count) in steps.zip(counts.within.into_iter().chain([all])) {
        let [container, namespace, pod, probe] = labels;
        let labels = [container, namespace, pod, probe, ("le", most.as_str())];
        text.sample(&format!("{DURATION}_bucket"), &labels, count as f64);
    }
    text.sample(&format!("{DURATION}_sum"), &labels, counts.seconds);
    text.sample(&format!("{DURATION}_count"), &labels, all as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_timed() {
        let labels = ProbeLabels {
            namespace: "n".into(),
            pod: "p".into(),
            pod_uid: "u".into(),
            container: "c".into(),
            probe: "Liveness",
        };
        let mut within = [0; SECONDS.len()];
        within[2..].fill(1);
        let counts = ProbeCounts { successful: 1, failed: 2, unknown: 0, within, seconds: 0.02 };
        let text = write(&[(labels, counts)]);
        for line in [
            "prober_probe_duration_seconds_bucket{container=\"c\",namespace=\"n\",pod=\"p\",probe_type=\"Liveness\",le=\"0.01\"} 0",
            "prober_probe_duration_seconds_bucket{container=\"c\",namespace=\"n\",pod=\"p\",probe_type=\"Liveness\",le=\"0.025\"} 1",
            "prober_probe_duration_seconds_bucket{container=\"c\",namespace=\"n\",pod=\"p\",probe_type=\"Liveness\",le=\"+Inf\"} 1",
            "prober_probe_duration_seconds_sum{container=\"c\",namespace=\"n\",pod=\"p\",probe_type=\"Liveness\"} 0.02",
            "prober_probe_total{container=\"c\",namespace=\"n\",pod=\"p\",pod_uid=\"u\",probe_type=\"Liveness\",result=\"failed\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
