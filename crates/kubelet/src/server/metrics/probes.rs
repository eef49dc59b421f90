//! `/metrics/probes`: how often probes succeeded and failed, by container, and how long they took.

use super::text::{Exposition, Kind};
use crate::machine::Machine;
use crate::probes::{Asked, SECONDS, Tally};

const TOTAL: &str = "prober_probe_total";
const DURATION: &str = "prober_probe_duration_seconds";

pub(super) fn render(machine: &Machine) -> String {
    write(&machine.probes.counts())
}

fn write(counts: &[(Asked, Tally)]) -> String {
    let mut text = Exposition::default();
    if counts.is_empty() {
        return text.finish();
    }
    text.family(DURATION, Kind::Histogram, "[ALPHA] Duration in seconds for a probe response.");
    for (asked, tally) in counts.iter().filter(|(_, tally)| tally.successful + tally.unknown > 0) {
        write_duration(&mut text, asked, tally);
    }
    let help =
        "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    text.family(TOTAL, Kind::Counter, help);
    for (asked, tally) in counts {
        let results =
            [("failed", tally.failed), ("successful", tally.successful), ("unknown", tally.unknown)];
        for (result, count) in results.into_iter().filter(|(_, count)| *count > 0) {
            let labels = [
                ("container", asked.container.as_str()),
                ("namespace", asked.namespace.as_str()),
                ("pod", asked.pod.as_str()),
                ("pod_uid", asked.pod_uid.as_str()),
                ("probe_type", asked.probe),
                ("result", result),
            ];
            text.sample(TOTAL, &labels, count as f64, None);
        }
    }
    text.finish()
}

fn write_duration(text: &mut Exposition, asked: &Asked, tally: &Tally) {
    let labels = [
        ("container", asked.container.as_str()),
        ("namespace", asked.namespace.as_str()),
        ("pod", asked.pod.as_str()),
        ("probe_type", asked.probe),
    ];
    let all = tally.successful + tally.unknown;
    let steps = SECONDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (most, count) in steps.zip(tally.within.into_iter().chain([all])) {
        let [container, namespace, pod, probe] = labels;
        let labels = [container, namespace, pod, probe, ("le", most.as_str())];
        text.sample(&format!("{DURATION}_bucket"), &labels, count as f64, None);
    }
    text.sample(&format!("{DURATION}_sum"), &labels, tally.seconds, None);
    text.sample(&format!("{DURATION}_count"), &labels, all as f64, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_timed() {
        let asked = Asked {
            namespace: "n".into(),
            pod: "p".into(),
            pod_uid: "u".into(),
            container: "c".into(),
            probe: "Liveness",
        };
        let mut within = [0; SECONDS.len()];
        within[2..].fill(1);
        let tally = Tally { successful: 1, failed: 2, unknown: 0, within, seconds: 0.02 };
        let text = write(&[(asked, tally)]);
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
