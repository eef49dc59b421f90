//! Pod admission: decided once by every kubelet, before it does anything about the pod. A rejected pod has failed.
//!
//! The checks, their order and their messages are upstream's. They are pure (`predicates`, `sysctls`, `preemption`);
//! this file brings them together and evicts the pods that are preempted.

mod predicates;
mod preemption;
mod sysctls;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::{Map, Value};
use corten_client::{Key, kinds};
use parking_lot::Mutex;

use crate::eviction::is_critical;
use crate::kubelet::Kubelet;
use crate::node;
use crate::pod::Pod;
use crate::status::Ended;
use predicates::Failure;

pub(crate) use sysctls::{UnknownSysctl, dotted};

/// The reason of a preempted pod's failure.
const PREEMPTING: &str = "Preempting";
/// The time between checks whether a preempted pod is terminated.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// The reason for which a pod is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The sysctls that pods may set, and the counts of rejections and preemptions.
pub(crate) struct AdmissionHandler {
    allowed_sysctls: sysctls::Allowed,
    rejected: Mutex<BTreeMap<&'static str, u64>>,
    preempted: Mutex<BTreeMap<String, u64>>,
}

impl AdmissionHandler {
    /// Reads the fields of a `KubeletConfiguration`.
    pub(crate) fn read(configuration: &Value) -> Result<AdmissionHandler, UnknownSysctl> {
        let allowed = configuration.items_at(&["allowedUnsafeSysctls"]).iter().filter_map(Value::as_str);
        let allowed_sysctls = sysctls::Allowed::with(allowed)?;
        Ok(AdmissionHandler { allowed_sysctls, rejected: Mutex::default(), preempted: Mutex::default() })
    }

    /// The number of rejected pods, by reason.
    pub(crate) fn rejected(&self) -> Vec<(String, u64)> {
        self.rejected.lock().iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// The number of preempted pods, by the resource that was lacking.
    pub(crate) fn preempted(&self) -> Vec<(String, u64)> {
        self.preempted.lock().iter().map(|(resource, count)| (resource.clone(), *count)).collect()
    }
}

/// Admits a pod, or returns the reason of its rejection. A pod that has started may go on although the node is under
/// pressure.
pub(crate) async fn admit(kubelet: &Kubelet, pod: &Pod, has_started: bool) -> Result<(), Rejection> {
    let admitted = check(kubelet, pod, has_started).await;
    if let Err(Rejection { reason, message }) = &admitted {
        tracing::info!(pod = %pod.key(), reason, err = message, "pod rejected");
        *kubelet.resources.admission.rejected.lock().entry(metric_reason(reason)).or_default() += 1;
    }
    admitted
}

async fn check(kubelet: &Kubelet, pod: &Pod, has_started: bool) -> Result<(), Rejection> {
    if !has_started {
        kubelet.eviction.admits(pod)?;
    }
    kubelet.resources.admission.allowed_sysctls.check(pod).map_err(|err| Rejection {
        reason: "SysctlForbidden".to_owned(),
        message: format!("forbidden sysctl: {err}"),
    })?;
    let preemption = match fit(kubelet, pod, &node::cached(kubelet)) {
        // The cached node may lack a label that was just set.
        Err(rejection) if rejection.reason == "NodeAffinity" => {
            let key = Key::new("", kubelet.api.node_name.as_str());
            match kubelet.api.client.get(&kinds::NODES, &key).await {
                Ok(node) => fit(kubelet, pod, &node)?,
                Err(_) => return Err(rejection),
            }
        }
        found => found?,
    };
    preempt(kubelet, pod, &preemption).await;
    if !has_app_armor() && has_app_armor_profile(pod.tree()) {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned();
        return Err(Rejection { reason: "AppArmor".to_owned(), message });
    }
    Ok(())
}

/// The pods to preempt so that a pod fits.
#[derive(Debug, Default)]
struct Preemption {
    victims: Vec<Pod>,
    /// The resource for which they are preempted.
    resource: String,
}

/// Admits a pod if it fits on the node, beside the other pods or in place of some.
fn fit(kubelet: &Kubelet, pod: &Pod, node: &Value) -> Result<Preemption, Rejection> {
    if let Some(rejection) = predicates::impossible(pod, node) {
        return Err(rejection);
    }
    kubelet.resources.allocations.admit(kubelet, pod, |others| select_victims(pod, others, node))
}

/// Decides which other pods have to be preempted so that a pod can run on a node.
fn select_victims(pod: &Pod, others: &[Pod], node: &Value) -> Result<Preemption, Rejection> {
    let failures = predicates::failures(pod, others, node);
    let Some(first) = failures.first() else { return Ok(Preemption::default()) };
    if !is_critical(pod) {
        return Err(first.rejection());
    }
    let mut lacks = Vec::new();
    for failure in &failures {
        match failure {
            Failure::Lack(lack) => lacks.push(lack.clone()),
            // No pod is preempted for a pod that cannot run here anyway.
            mismatch @ Failure::Mismatch { .. } => return Err(mismatch.rejection()),
        }
    }
    let resource = lacks.first().map(|lack| lack.resource.clone()).unwrap_or_default();
    match preemption::victims(pod, others, &lacks) {
        Ok(victims) => Ok(Preemption { victims, resource }),
        Err(why) => Err(Rejection {
            reason: "UnexpectedAdmissionError".to_owned(),
            message: format!(
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
                 pods to preempt: {why}"
            ),
        }),
    }
}

/// Evicts the pods to preempt, and waits until they are terminated.
async fn preempt(kubelet: &Kubelet, pod: &Pod, preemption: &Preemption) {
    let message = "Preempted in order to admit critical pod";
    for victim in &preemption.victims {
        tracing::info!(pod = %victim.key(), preemptor = %pod.key(), "preempting pod");
        kubelet.api.pod_events(victim).warning(PREEMPTING, message);
        let ended = Ended {
            reason: PREEMPTING.to_owned(),
            message: message.to_owned(),
            disrupted: Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned()),
            ..Ended::default()
        };
        kubelet.pod_workers.evict_pod(victim.uid(), ended);
    }
    for victim in &preemption.victims {
        while kubelet.pod_workers.could_have_running_containers(victim.uid()) {
            kubelet.clock.sleep(POLL_PERIOD).await;
        }
        *kubelet.resources.admission.preempted.lock().entry(preemption.resource.clone()).or_default() += 1;
    }
}

/// Returns true if the kernel has AppArmor enabled.
fn has_app_armor() -> bool {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    enabled.is_ok_and(|enabled| enabled.starts_with('Y'))
}

/// Returns true if a pod or one of its containers has an AppArmor profile.
fn has_app_armor_profile(pod: &Value) -> bool {
    let confines = |tree: &Value| {
        let kind = tree.str_at(&["securityContext", "appArmorProfile", "type"]);
        kind.is_some_and(|kind| kind != "Unconfined")
    };
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = lists.into_iter().flat_map(|list| pod.items_at(&["spec", list]));
    let mut annotations =
        pod.at(&["metadata", "annotations"]).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    pod.get("spec").is_some_and(confines)
        || containers.any(confines)
        || annotations.any(|(key, value)| {
            key.starts_with("container.apparmor.security.beta.kubernetes.io/")
                && value.as_str() != Some("unconfined")
        })
}

/// The metric label of a reason. Reasons with an unbounded number of values are grouped.
fn metric_reason(reason: &str) -> &'static str {
    const COUNTED: [&str; 11] = [
        "AppArmor",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "SupplementalGroupsPolicyNotSupported",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfpods",
        "Evicted",
        "SysctlForbidden",
    ];
    let other = if reason.starts_with("OutOf") { "OutOfExtendedResources" } else { "Other" };
    COUNTED.into_iter().find(|counted| *counted == reason).unwrap_or(other)
}
