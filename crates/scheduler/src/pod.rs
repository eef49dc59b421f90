//! A pod, as the scheduler sees it: its identity and its shape.
//!
//! Pods of one template differ only in their identity; everything that decides about feasible nodes is their `Shape`,
//! stored once for all of them.

pub(crate) mod requests;
mod shapes;
pub(crate) mod terms;
pub(crate) mod volumes;

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Str, Value, meta, time};
use corten_client::Key;
use jiff::Timestamp;

use crate::node_selector::{PreferredTerm, RequiredNodes};
use crate::tolerations::Toleration;
use requests::Requests;
use terms::{PodTerms, Spread};
use volumes::Volumes;

pub(crate) use shapes::Memo;
pub(crate) use shapes::Shapes;

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) key: Key,
    pub(crate) uid: Str,
    pub(crate) revision: Str,
    pub(crate) shape: Arc<Shape>,
    /// The node it is bound to; empty if none.
    pub(crate) node: Str,
    /// Its nominated node.
    pub(crate) nominated: Str,
    pub(crate) gates: Vec<Str>,
    pub(crate) deleting: bool,
    /// True if it is terminating because of preemption.
    pub(crate) preempted: bool,
    pub(crate) finished: bool,
    pub(crate) started: Option<Timestamp>,
    /// Reason and message of its `PodScheduled` condition.
    pub(crate) condition: Option<(Str, Str)>,
}

/// Everything that decides about the feasible nodes of a pod.
#[derive(Debug)]
pub(crate) struct Shape {
    /// A small number, reused when a shape is gone.
    pub(crate) id: u32,
    /// A unique number, never reused.
    pub(crate) serial: u64,
    /// Equal for shapes that differ only in labels, claims, namespaces and controllers, on which no node-local result
    /// depends.
    pub(crate) outline: (u64, u64),
    pub(crate) namespace: Str,
    pub(crate) labels: Map,
    pub(crate) controller: Option<Controller>,
    pub(crate) scheduler: Str,
    pub(crate) priority: i32,
    pub(crate) preempts: bool,
    pub(crate) requests: Requests,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) images: Vec<Str>,
    pub(crate) nodes: RequiredNodes,
    pub(crate) preferred_nodes: Vec<PreferredTerm>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) affinity: PodTerms,
    pub(crate) anti_affinity: PodTerms,
    pub(crate) spread: Vec<Spread>,
    pub(crate) volumes: Volumes,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Controller {
    pub(crate) api_version: Str,
    pub(crate) kind: Str,
    pub(crate) name: Str,
}

/// A host port of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostPort {
    pub(crate) address: Str,
    pub(crate) protocol: Str,
    pub(crate) port: u16,
}

impl HostPort {
    /// True if two pods on one node cannot have both.
    pub(crate) fn conflicts(&self, other: &HostPort) -> bool {
        let anywhere = |address: &str| address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (anywhere(&self.address) || anywhere(&other.address) || self.address == other.address)
    }
}

impl Pod {
    /// Reads a pod; pods of the same shape share it.
    pub(crate) fn of(pod: &Value, shapes: &Shapes) -> Pod {
        let text = |path: &[&str]| Str::new(pod.str_at(path).unwrap_or_default());
        let at = |path: &[&str]| pod.str_at(path).and_then(|text| time::parse(text).ok());
        let gates = pod.items_at(&["spec", "schedulingGates"]).iter();
        Pod {
            key: Key::of(pod),
            uid: Str::new(meta::uid(pod)),
            revision: Str::new(meta::resource_version(pod)),
            shape: shapes.of(pod),
            node: text(&["spec", "nodeName"]),
            nominated: text(&["status", "nominatedNodeName"]),
            gates: gates.filter_map(|gate| gate.str_at(&["name"])).map(Str::new).collect(),
            deleting: meta::is_deleting(pod),
            preempted: meta::is_deleting(pod) && is_preempted(pod),
            finished: matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")),
            started: at(&["status", "startTime"]),
            condition: condition_of(pod),
        }
    }

    /// The reference of events.
    pub(crate) fn reference(&self) -> Value {
        corten_api::value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": (self.key.name.clone()), "namespace": (self.key.namespace.clone()),
                "uid": (self.uid.clone()), "resourceVersion": (self.revision.clone()),
            },
        })
    }

    pub(crate) fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches(&self.shape.labels)
    }
}

fn is_preempted(pod: &Value) -> bool {
    let conditions = pod.items_at(&["status", "conditions"]);
    let target = conditions.iter().find(|c| c.str_at(&["type"]) == Some("DisruptionTarget"));
    target.is_some_and(|condition| {
        condition.str_at(&["status"]) == Some("True")
            && condition.str_at(&["reason"]) == Some("PreemptionByScheduler")
    })
}

fn condition_of(pod: &Value) -> Option<(Str, Str)> {
    let conditions = pod.items_at(&["status", "conditions"]);
    let condition = conditions.iter().find(|c| c.str_at(&["type"]) == Some("PodScheduled"))?;
    let text = |key: &str| Str::new(condition.str_at(&[key]).unwrap_or_default());
    Some((text("reason"), text("message")))
}
