//! Whether the node takes a pod on. It is asked once by every kubelet, before it does anything about the pod; a pod that is
//! not taken on has failed.
//!
//! What is asked, in which order and in which words is upstream's. The checks are pure (`predicates`, `sysctls`,
//! `preemption`); this file brings them together and ends those who have to make room.

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
use crate::machine::Machine;
use crate::node;
use crate::pod::Pod;
use crate::status::Ended;
use predicates::Failure;

pub(crate) use sysctls::dotted;

/// Why a pod goes for another.
const PREEMPTING: &str = "Preempting";
/// How often it is looked whether somebody who has to go has gone.
const GOING: Duration = Duration::from_millis(100);

/// Why a pod is not taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// What the node lets pods do, and how often it did not.
pub(crate) struct Admissions {
    allowed_sysctls: sysctls::Allowed,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    preempted: Mutex<BTreeMap<String, u64>>,
}

impl Admissions {
    /// Reads the fields of a `KubeletConfiguration`.
    pub(crate) fn read(configuration: &Value) -> Result<Admissions, String> {
        let allowed = configuration.items_at(&["allowedUnsafeSysctls"]).iter().filter_map(Value::as_str);
        let allowed_sysctls = sysctls::Allowed::with(allowed)?;
        Ok(Admissions { allowed_sysctls, refused: Mutex::default(), preempted: Mutex::default() })
    }

    /// How many pods were not taken on, by reason.
    pub(crate) fn refused(&self) -> Vec<(String, u64)> {
        self.refused.lock().iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// How many pods went for others, by what was lacking.
    pub(crate) fn preempted(&self) -> Vec<(String, u64)> {
        self.preempted.lock().iter().map(|(resource, count)| (resource.clone(), *count)).collect()
    }
}

/// Takes a pod on, or says why not. One that has begun already may go on although the node is short of something.
pub(crate) async fn admit(machine: &Machine, pod: &Pod, has_begun: bool) -> Result<(), Refusal> {
    let admitted = ask(machine, pod, has_begun).await;
    if let Err(Refusal { reason, message }) = &admitted {
        tracing::info!(pod = %pod.key(), reason, message, "a pod is not taken on");
        *machine.admissions.refused.lock().entry(counted_as(reason)).or_default() += 1;
    }
    admitted
}

async fn ask(machine: &Machine, pod: &Pod, has_begun: bool) -> Result<(), Refusal> {
    if !has_begun {
        machine.evictions.admits(pod)?;
    }
    machine.admissions.allowed_sysctls.check(pod).map_err(|why| Refusal {
        reason: "SysctlForbidden".to_owned(),
        message: format!("forbidden sysctl: {why}"),
    })?;
    let room = match fit(machine, pod, &node::known(machine)) {
        // The node may have been labelled just now.
        Err(refusal) if refusal.reason == "NodeAffinity" => {
            let key = Key::new("", machine.config.node_name.as_str());
            match machine.client.get(&kinds::NODES, &key).await {
                Ok(node) => fit(machine, pod, &node)?,
                Err(_) => return Err(refusal),
            }
        }
        found => found?,
    };
    make_room(machine, pod, &room).await;
    if !has_app_armor() && asks_for_app_armor(pod.tree()) {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned();
        return Err(Refusal { reason: "AppArmor".to_owned(), message });
    }
    Ok(())
}

/// Who has to go so that a pod fits.
#[derive(Debug, Default)]
struct Room {
    victims: Vec<Pod>,
    /// What they go for.
    resource: String,
}

/// Takes a pod on if it fits on the node, beside the others or in place of some.
fn fit(machine: &Machine, pod: &Pod, node: &Value) -> Result<Room, Refusal> {
    if let Some(refusal) = predicates::impossible(pod, node) {
        return Err(refusal);
    }
    machine.allocations.take_on(machine, pod, |others| judge(pod, others, node))
}

/// Who of the others would have to go so that a pod can run on a node.
fn judge(pod: &Pod, others: &[Pod], node: &Value) -> Result<Room, Refusal> {
    let failures = predicates::failures(pod, others, node);
    let Some(first) = failures.first() else { return Ok(Room::default()) };
    if !is_critical(pod) {
        return Err(first.refusal());
    }
    let mut lacks = Vec::new();
    for failure in &failures {
        match failure {
            Failure::Lack(lack) => lacks.push(lack.clone()),
            // Nobody has to go for a pod that cannot be here anyway.
            mismatch @ Failure::Mismatch { .. } => return Err(mismatch.refusal()),
        }
    }
    let resource = lacks.first().map(|lack| lack.resource.clone()).unwrap_or_default();
    match preemption::victims(pod, others, &lacks) {
        Ok(victims) => Ok(Room { victims, resource }),
        Err(why) => Err(Refusal {
            reason: "UnexpectedAdmissionError".to_owned(),
            message: format!(
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
                 pods to preempt: {why}"
            ),
        }),
    }
}

/// Ends those who have to go, and waits until they have gone.
async fn make_room(machine: &Machine, pod: &Pod, room: &Room) {
    let message = "Preempted in order to admit critical pod";
    for victim in &room.victims {
        tracing::info!(pod = %victim.key(), r#for = %pod.key(), "a pod makes room for another");
        machine.teller(victim).warning(PREEMPTING, message);
        let ended = Ended {
            reason: PREEMPTING.to_owned(),
            message: message.to_owned(),
            disrupted: Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned()),
            ..Ended::default()
        };
        machine.pods.end(victim.uid(), ended);
    }
    for victim in &room.victims {
        while machine.pods.is_at_work(victim.uid()) {
            machine.clock.sleep(GOING).await;
        }
        *machine.admissions.preempted.lock().entry(room.resource.clone()).or_default() += 1;
    }
}

/// Whether the kernel has AppArmor and uses it: one that has it may have been started without.
fn has_app_armor() -> bool {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    enabled.is_ok_and(|enabled| enabled.starts_with('Y'))
}

/// Whether a pod or one of its containers is to be confined by AppArmor.
fn asks_for_app_armor(pod: &Value) -> bool {
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

/// As metrics name a reason: there must not be too many of them.
fn counted_as(reason: &str) -> &'static str {
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
