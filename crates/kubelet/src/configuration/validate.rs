//! Validation of a configuration, in upstream's words and order. Pure.

use corten_api::Value;

use super::Configuration;
use super::read::go_seconds;

const ENFORCEMENTS: [&str; 6] = [
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
    "none",
];

/// All errors of a complete configuration.
pub(super) fn complaints(configuration: &Configuration) -> Vec<String> {
    let mut checks = Checks { configuration, complaints: Vec::new() };
    checks.numbers();
    checks.images();
    checks.node();
    checks.policies();
    checks.enforcements();
    checks.logs();
    checks.complaints
}

struct Checks<'a> {
    configuration: &'a Configuration,
    complaints: Vec<String>,
}

impl Checks<'_> {
    fn say(&mut self, complaint: impl std::fmt::Display) {
        self.complaints.push(format!("invalid configuration: {complaint}"));
    }

    fn unless(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.say(complaint());
        }
    }

    fn not_negative(&mut self, path: &str, flag: &str) {
        let value = self.configuration.int(path);
        self.unless(value >= 0, || format!("{path} (--{flag}) {value} must not be a negative number"));
    }

    fn within(&mut self, path: &str, flag: &str, least: i64, most: i64) {
        let value = self.configuration.int(path);
        self.unless((least..=most).contains(&value), || {
            format!("{path} (--{flag}) {value} must be between {least} and {most}, inclusive")
        });
    }

    fn numbers(&mut self) {
        let lease = self.configuration.int("nodeLeaseDurationSeconds");
        self.unless(lease > 0, || "nodeLeaseDurationSeconds must be greater than 0".to_owned());
        let text = |path| self.configuration.text(path);
        if !text("systemCgroups").is_empty() && text("cgroupRoot").is_empty() {
            self.say(
                "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
            );
        }
        self.not_negative("eventBurst", "event-burst");
        self.not_negative("eventRecordQPS", "event-qps");
        if self.configuration.int("healthzPort") != 0 {
            self.within("healthzPort", "healthz-port", 1, 65535);
        }
        let period = go_seconds(self.configuration.text("cpuCFSQuotaPeriod")).unwrap_or_default();
        self.unless((0.001..=1.0).contains(&period), || {
            format!(
                "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {period}s must be between 1ms and 1sec, inclusive"
            )
        });
        for (path, flag) in [
            ("kubeAPIBurst", "kube-api-burst"),
            ("kubeAPIQPS", "kube-api-qps"),
            ("maxOpenFiles", "max-open-files"),
            ("maxPods", "max-pods"),
            ("podsPerCore", "pods-per-core"),
            ("registryBurst", "registry-burst"),
            ("registryPullQPS", "registry-qps"),
        ] {
            self.not_negative(path, flag);
        }
        self.within("oomScoreAdj", "oom-score-adj", -1000, 1000);
        self.within("port", "port", 1, 65535);
        let port = self.configuration.int("readOnlyPort");
        self.unless((0..=65535).contains(&port), || {
            format!("readOnlyPort (--read-only-port) {port} must be between 0 and 65535, inclusive")
        });
        self.within("iptablesDropBit", "iptables-drop-bit", 0, 31);
        self.within("iptablesMasqueradeBit", "iptables-masquerade-bit", 0, 31);
    }

    fn images(&mut self) {
        let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
        self.within(high, "image-gc-high-threshold", 0, 100);
        self.within(low, "image-gc-low-threshold", 0, 100);
        let (most, least) = (self.configuration.int(high), self.configuration.int(low));
        self.unless(least < most, || {
            format!(
                "{low} (--image-gc-low-threshold) {least} must be less than {high} (--image-gc-high-threshold) {most}"
            )
        });
        let age = |path| go_seconds(self.configuration.text(path)).unwrap_or_default();
        let (youngest, oldest) = (age("imageMinimumGCAge"), age("imageMaximumGCAge"));
        let said = |path| self.configuration.text(path).to_owned();
        let (minimum, maximum) = (said("imageMinimumGCAge"), said("imageMaximumGCAge"));
        self.unless(youngest >= 0.0, || format!("imageMinimumGCAge {minimum} must not be negative"));
        self.unless(oldest >= 0.0, || format!("imageMaximumGCAge {maximum} must not be negative"));
        self.unless(oldest <= 0.0 || oldest > youngest, || {
            format!("imageMaximumGCAge {maximum} must be greater than imageMinimumGCAge {minimum}")
        });
        let parallel = self.configuration.at("maxParallelImagePulls").and_then(Value::as_int);
        if let Some(parallel) = parallel {
            self.unless(parallel >= 1, || {
                format!("maxParallelImagePulls {parallel} must be a positive number")
            });
            let serial = self.configuration.bool("serializeImagePulls");
            self.unless(!serial || parallel <= 1, || {
                "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) \
                 is set to false"
                    .to_owned()
            });
        }
        let most = self.configuration.int("nodeStatusMaxImages");
        self.unless(most >= -1, || {
            format!("nodeStatusMaxImages (--node-status-max-images) {most} must be -1 or greater")
        });
    }

    fn node(&mut self) {
        if self.configuration.bool("runOnce") {
            self.say("runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set");
        }
        for taint in self.configuration.items("registerWithTaints") {
            let text = |key: &str| taint.str_at(&[key]).unwrap_or_default();
            let effect = matches!(text("effect"), "NoSchedule" | "PreferNoSchedule" | "NoExecute");
            if text("key").is_empty() || !effect {
                self.complaints.push(format!(
                    "invalid taint: {}={}:{}",
                    text("key"),
                    text("value"),
                    text("effect")
                ));
            }
            if taint.get("timeAdded").is_some() {
                self.say("taint.TimeAdded is not nil");
            }
        }
    }

    fn one_of(&mut self, path: &str, choices: &[&str], complaint: impl FnOnce(&str) -> String) {
        let value = self.configuration.text(path).to_owned();
        self.unless(choices.contains(&value.as_str()), || complaint(&value));
    }

    fn policies(&mut self) {
        let topology = ["none", "best-effort", "restricted", "single-numa-node"];
        self.one_of("topologyManagerPolicy", &topology, |value| {
            let quoted = topology.map(|choice| format!("{choice:?}")).join(" ");
            format!("topologyManagerPolicy (--topology-manager-policy) {value:?} must be one of: [{quoted}]")
        });
        self.one_of("topologyManagerScope", &["container", "pod"], |value| {
            format!(
                "topologyManagerScope (--topology-manager-scope) {value:?} must be one of: \"container\", or \"pod\""
            )
        });
        let period = |path| go_seconds(self.configuration.text(path)).unwrap_or_default();
        let (all, critical) = (period("shutdownGracePeriod"), period("shutdownGracePeriodCriticalPods"));
        self.unless(critical <= all, || {
            format!(
                "shutdownGracePeriodCriticalPods {{{critical}s}} must be <= shutdownGracePeriod {{{all}s}}"
            )
        });
        self.one_of("memorySwap.swapBehavior", &["", "NoSwap", "LimitedSwap"], |value| {
            format!("memorySwap.swapBehavior {value:?} must be one of: \"\", \"LimitedSwap\" or \"NoSwap\"")
        });
        self.one_of("hairpinMode", &["none", "hairpin-veth", "promiscuous-bridge"], |value| {
            format!(
                "option {value:?} specified for hairpinMode (--hairpin-mode). Valid options are \"none\", \
                 \"hairpin-veth\" or \"promiscuous-bridge\""
            )
        });
        self.one_of("authorization.mode", &["AlwaysAllow", "Webhook"], |value| {
            format!("unknown authorization mode {value}")
        });
        self.one_of("cgroupDriver", &["cgroupfs"], |value| {
            format!("cgroupDriver (--cgroup-driver) {value:?} is not supported here; use \"cgroupfs\"")
        });
    }

    fn enforcements(&mut self) {
        let option = "enforceNodeAllocatable (--enforce-node-allocatable)";
        let asked = self.configuration.texts("enforceNodeAllocatable");
        let mut seen: Vec<&str> = Vec::new();
        for value in &asked {
            if seen.contains(&value.as_str()) {
                self.say(format!("duplicated enforcements {value:?} in {option}"));
                continue;
            }
            seen.push(value);
            let cgroup = |path| !self.configuration.text(path).is_empty();
            let missing = match value.as_str() {
                "system-reserved" | "system-reserved-compressible" if !cgroup("systemReservedCgroup") => {
                    Some("system")
                }
                "kube-reserved" | "kube-reserved-compressible" if !cgroup("kubeReservedCgroup") => {
                    Some("kube")
                }
                _ => None,
            };
            if let Some(which) = missing {
                self.say(format!(
                    "{which}ReservedCgroup (--{which}-reserved-cgroup) must be specified when \"{which}-reserved\" or \
                     \"{which}-reserved-compressible\" included in {option}"
                ));
            }
            if value == "none" && asked.len() > 1 {
                self.say(format!(
                    "{option} may not contain additional enforcements when \"none\" is specified"
                ));
            }
            if !ENFORCEMENTS.contains(&value.as_str()) {
                let quoted = ENFORCEMENTS.map(|choice| format!("{choice:?}"));
                let (last, others) = (quoted[5].as_str(), quoted[..5].join(", "));
                self.say(format!(
                    "option {value:?} specified for {option}. Valid options are {others} or {last}"
                ));
            } else if value != "none" && !self.configuration.bool("cgroupsPerQOS") {
                self.say(format!(
                    "cgroupsPerQOS (--cgroups-per-qos) must be set to true when {value:?} contained in {option}"
                ));
            }
        }
    }

    fn logs(&mut self) {
        let workers = self.configuration.int("containerLogMaxWorkers");
        self.unless(workers >= 1, || "containerLogMaxWorkers must be greater than or equal to 1".to_owned());
        let interval = go_seconds(self.configuration.text("containerLogMonitorInterval")).unwrap_or_default();
        self.unless(interval >= 3.0, || {
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
                .to_owned()
        });
        let files = self.configuration.int("containerLogMaxFiles");
        self.unless(files > 1, || "containerLogMaxFiles must be greater than 1".to_owned());
        let directory = self.configuration.text("podLogsDir");
        let (absolute, clean) = (directory.starts_with('/'), is_clean(directory));
        let directory = directory.to_owned();
        self.unless(absolute, || format!("pod logs path {directory:?} must be absolute path"));
        self.unless(clean, || format!("pod logs path {directory:?} must be normalized"));
    }
}

fn is_clean(path: &str) -> bool {
    path.len() == 1 || !path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
        let mut configuration = Configuration::read(format!("{head}{text}").as_bytes()).unwrap().0;
        configuration.complete();
        assert_eq!(complaints(&configuration), expected, "{text}");
    }

    #[test]
    fn errors_have_upstreams_words() {
        check("", &[]);
        check(
            "healthzPort: 65536",
            &[
                "invalid configuration: healthzPort (--healthz-port) 65536 must be between 1 and 65535, inclusive",
            ],
        );
        check(
            "maxPods: -1",
            &["invalid configuration: maxPods (--max-pods) -1 must not be a negative number"],
        );
        check(
            "imageGCLowThresholdPercent: 90",
            &[
                "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) 90 must be less than \
             imageGCHighThresholdPercent (--image-gc-high-threshold) 85",
            ],
        );
        check(
            "enforceNodeAllocatable: [pods, pods]",
            &["invalid configuration: duplicated enforcements \"pods\" in enforceNodeAllocatable \
             (--enforce-node-allocatable)"],
        );
        check(
            "enforceNodeAllocatable: [all]",
            &[
                "invalid configuration: option \"all\" specified for enforceNodeAllocatable (--enforce-node-allocatable). \
             Valid options are \"pods\", \"system-reserved\", \"system-reserved-compressible\", \"kube-reserved\", \
             \"kube-reserved-compressible\" or \"none\"",
            ],
        );
        check(
            "containerLogMaxFiles: 1",
            &["invalid configuration: containerLogMaxFiles must be greater than 1"],
        );
        check(
            "podLogsDir: /var/../log",
            &["invalid configuration: pod logs path \"/var/../log\" must be normalized"],
        );
        check(
            "hairpinMode: x",
            &[
                "invalid configuration: option \"x\" specified for hairpinMode (--hairpin-mode). Valid options are \
             \"none\", \"hairpin-veth\" or \"promiscuous-bridge\"",
            ],
        );
    }
}
