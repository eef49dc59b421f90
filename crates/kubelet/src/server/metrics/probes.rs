//! `/metrics/probes`: how often probes succeeded and failed, by container.

use super::text::{Exposition, Kind};
use crate::machine::Machine;

const NAME: &str = "prober_probe_total";

pub(super) fn render(machine: &Machine) -> String {
    let mut text = Exposition::default();
    let counts = machine.probes.counts();
    if !counts.is_empty() {
        let help =
            "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
        text.family(NAME, Kind::Counter, help);
    }
    for (asked, number) in counts {
        let labels = [
            ("container", asked.container.as_str()),
            ("namespace", asked.namespace.as_str()),
            ("pod", asked.pod.as_str()),
            ("pod_uid", asked.pod_uid.as_str()),
            ("probe_type", asked.probe),
            ("result", if asked.succeeded { "successful" } else { "failed" }),
        ];
        text.sample(NAME, &labels, number as f64, None);
    }
    text.finish()
}
