//! Fields that this kubelet accepts but does not carry out. Pure.
//!
//! A field that promises isolation, protection or an order is refused unless its value is what happens anyway: a
//! kubelet must not look stricter than it is. A field that only tunes upstream's internals is accepted and named in a
//! warning.

use corten_api::{Value, json};

use super::fields::FIELDS;
use super::{Configuration, is_zero};

/// Fields that are refused, and the reason. The default and the values listed with a field are accepted.
static REFUSED: &[(&str, &[&str], &str)] = &[
    ("userNamespaces", &[], "pods have no user namespaces of their own"),
    ("cgroupRoot", &["/"], "pods are below /kubepods"),
    ("kubeletCgroups", &[], "the kubelet stays in the cgroup it was started in"),
    ("systemCgroups", &[], "processes of the system stay in their cgroups"),
    ("cgroupsPerQOS", &[], "pods have cgroups by their class"),
    ("cpuCFSQuota", &[], "limits of CPU are always enforced"),
    ("cpuCFSQuotaPeriod", &[], "quotas of CPU are spent over 100ms"),
    ("cpuManagerPolicy", &[], "no CPU is given to one container alone"),
    ("cpuManagerPolicyOptions", &[], "no CPU is given to one container alone"),
    ("memoryManagerPolicy", &[], "no memory is given to one container alone"),
    ("reservedMemory", &[], "no memory is given to one container alone"),
    ("reservedSystemCPUs", &[], "no CPU is kept from pods"),
    ("topologyManagerPolicy", &[], "the topology of the machine is not looked at"),
    ("topologyManagerPolicyOptions", &[], "the topology of the machine is not looked at"),
    ("qosReserved", &[], "nothing is reserved for classes of pods"),
    ("memoryReservationPolicy", &[], "memory is not reserved"),
    ("memoryThrottlingFactor", &[], "memory is not throttled"),
    ("memorySwap.swapBehavior", &["NoSwap"], "containers have no swap"),
    ("kubeReservedCgroup", &[], "only pods are limited"),
    ("systemReservedCgroup", &[], "only pods are limited"),
    ("defaultPodSysctls", &[], "only what a pod says is set"),
    ("enableSystemLogQuery", &["false"], "the system's log cannot be asked for"),
    ("shutdownGracePeriod", &[], "the shutdown of the machine is not delayed"),
    ("shutdownGracePeriodCriticalPods", &[], "the shutdown of the machine is not delayed"),
    ("shutdownGracePeriodByPodPriority", &[], "the shutdown of the machine is not delayed"),
    ("crashLoopBackOff.maxContainerRestartPeriod", &["5m0s", "5m", "300s"], "containers wait up to 5m"),
    (
        "tlsMinVersion",
        &["VersionTLS10", "VersionTLS11", "VersionTLS12"],
        "TLS 1.2 and 1.3 are spoken, and nothing older",
    ),
    ("tlsCurvePreferences", &[], "the curves are those of the TLS library"),
];

/// Fields that only tune upstream's internals, or that upstream has abandoned.
static WITHOUT_EFFECT: &[&str] = &[
    "syncFrequency",
    "registryPullQPS",
    "registryBurst",
    "eventRecordQPS",
    "eventBurst",
    "enableContentionProfiling",
    "volumeStatsAggPeriod",
    "singleProcessOOMKill",
    "cpuManagerReconcilePeriod",
    "topologyManagerScope",
    "runtimeRequestTimeout",
    "hairpinMode",
    "podCIDR",
    "maxOpenFiles",
    "contentType",
    "kubeAPIQPS",
    "kubeAPIBurst",
    "serializeImagePulls",
    "maxParallelImagePulls",
    "mergeDefaultEvictionSettings",
    "enableControllerAttachDetach",
    "makeIPTablesUtilChains",
    "iptablesMasqueradeBit",
    "iptablesDropBit",
    "featureGates",
    "containerLogMaxWorkers",
    "configMapAndSecretChangeDetectionStrategy",
    "showHiddenMetricsForVersion",
    "volumePluginDir",
    "kernelMemcgNotification",
    "logging.format",
    "logging.flushFrequency",
    "logging.vmodule",
    "logging.options",
    "tracing",
    "localStorageCapacityIsolation",
    "failSwapOn",
];

/// The TLS 1.2 cipher suites of the kubelet's API. Those of TLS 1.3 cannot be chosen, as upstream.
const SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
];

/// The fields of a complete configuration that cannot be carried out.
pub(super) fn refusals(configuration: &Configuration) -> Vec<String> {
    let mut refused = Vec::new();
    for (path, taken, why) in REFUSED {
        if let Some(value) = set_value(configuration, path)
            && !taken.contains(&shown(value).as_str())
        {
            refused.push(format!("{path} {} is not supported: {why}", shown(value)));
        }
    }
    let suites = configuration.texts("tlsCipherSuites");
    let asked: Vec<&str> = suites.iter().map(|suite| suite.trim_end_matches("_POLY1305_SHA256")).collect();
    let missing =
        |suite: &&&str| !asked.contains(*suite) && !asked.contains(&suite.trim_end_matches("_POLY1305"));
    if !suites.is_empty()
        && let Some(missing) = SUITES.iter().find(missing)
    {
        refused.push(format!(
            "tlsCipherSuites (--tls-cipher-suites) without {missing} is not supported: the suites cannot be chosen"
        ));
    }
    refused.extend(configuration.texts("enforceNodeAllocatable").iter().filter_map(|what| {
        let carried_out = matches!(what.as_str(), "pods" | "none");
        (!carried_out)
            .then(|| format!("enforceNodeAllocatable {what:?} is not supported: only pods are limited"))
    }));
    refused
}

/// The fields of a complete configuration that have no effect.
pub(super) fn without_effect(configuration: &Configuration) -> Vec<&'static str> {
    WITHOUT_EFFECT.iter().copied().filter(|path| set_value(configuration, path).is_some()).collect()
}

/// The value of a field if it is neither empty nor the default.
fn set_value<'a>(configuration: &'a Configuration, path: &str) -> Option<&'a Value> {
    let value = configuration.at(path).filter(|value| !value.is_null())?;
    let default = FIELDS.iter().find(|field| field.path == path).map_or("", |field| field.default);
    match default {
        "" => (!is_zero(value)).then_some(value),
        default => (json::parse(default.as_bytes()).ok().as_ref() != Some(value)).then_some(value),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| json::write_to_string(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Configuration {
        let head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
        let mut configuration = Configuration::read(format!("{head}{text}").as_bytes()).unwrap().0;
        configuration.complete();
        configuration
    }

    #[test]
    fn unsupported_fields_are_refused_or_warned_about() {
        let table = [
            ("", None),
            ("cpuManagerPolicy: none", None),
            ("cpuManagerPolicy: static", Some("cpuManagerPolicy static is not supported: no CPU")),
            ("userNamespaces: {idsPerPod: 65536}", Some("userNamespaces {\"idsPerPod\":65536} is not")),
            ("userNamespaces: {}", None),
            ("memorySwap: {swapBehavior: NoSwap}", None),
            ("memorySwap: {swapBehavior: LimitedSwap}", Some("memorySwap.swapBehavior LimitedSwap is not")),
            ("tlsMinVersion: VersionTLS12", None),
            ("tlsMinVersion: VersionTLS13", Some("tlsMinVersion VersionTLS13 is not")),
            ("tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]", Some("tlsCipherSuites")),
            ("enforceNodeAllocatable: [pods]", None),
            ("shutdownGracePeriod: 0s", None),
            ("shutdownGracePeriod: 30s", Some("shutdownGracePeriod 30s is not supported")),
            ("enableSystemLogQuery: false", None),
            ("enableSystemLogQuery: true", Some("enableSystemLogQuery true is not")),
        ];
        for (text, expected) in table {
            let found = refusals(&read(text));
            match expected {
                None => assert!(found.is_empty(), "{text}: {found:?}"),
                Some(expected) => assert!(found[0].starts_with(expected), "{text}: {found:?}"),
            }
        }
        let suites = SUITES.map(|suite| suite.replace("_POLY1305", "_POLY1305_SHA256")).join(", ");
        assert!(refusals(&read(&format!("tlsCipherSuites: [{suites}]"))).is_empty());
        assert_eq!(without_effect(&read("eventRecordQPS: 7")), ["eventRecordQPS"]);
        assert!(without_effect(&Configuration::default()).is_empty());
    }

    #[test]
    fn all_listed_paths_are_fields() {
        let refused = REFUSED.iter().map(|(path, ..)| *path);
        for path in refused.chain(WITHOUT_EFFECT.iter().copied()) {
            assert!(FIELDS.iter().any(|field| field.path == path), "{path}");
        }
    }
}
