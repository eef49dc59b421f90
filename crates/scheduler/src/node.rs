//! A node, as the scheduler sees it.

use std::collections::HashMap;

use corten_api::{Map, Str, Value, meta};

use crate::resources::{self, Resources};
use crate::tolerations::Taint;

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
pub(crate) const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(crate) const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Node {
    pub(crate) name: Str,
    pub(crate) labels: Map,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Resources,
    pub(crate) max_pods: i64,
    /// The size of every image by each of its names.
    pub(crate) images: HashMap<Str, i64>,
}

impl Node {
    pub(crate) fn of(node: &Value) -> Node {
        let allocatable = node.at(&["status", "allocatable"]);
        let max_pods = allocatable.and_then(|list| list.get(resources::PODS));
        Node {
            name: Str::new(meta::name(node)),
            labels: meta::labels(node).cloned().unwrap_or_default(),
            taints: node.items_at(&["spec", "taints"]).iter().filter_map(Taint::of).collect(),
            unschedulable: node.bool_at(&["spec", "unschedulable"]) == Some(true),
            allocatable: Resources::of(allocatable),
            max_pods: max_pods.map_or(0, |quantity| resources::amount(resources::PODS, quantity)),
            images: images(node),
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).and_then(Value::as_str)
    }

    /// Its region and zone, for the round-robin order of nodes.
    pub(crate) fn zone(&self) -> String {
        let label = |new: &str, old: &str| self.label(old).or_else(|| self.label(new)).unwrap_or_default();
        let (region, zone) = (label(REGION, OLD_REGION), label(ZONE, OLD_ZONE));
        if region.is_empty() && zone.is_empty() { String::new() } else { format!("{region}:\0:{zone}") }
    }

    /// True if it has a PreferNoSchedule taint.
    pub(crate) fn has_prefer_no_schedule(&self) -> bool {
        self.taints.iter().any(|taint| !taint.rejects_pods())
    }

    /// True if no field differs that filters or static scores read.
    pub(crate) fn is_placed_alike(&self, other: &Node) -> bool {
        self.labels == other.labels
            && self.taints == other.taints
            && self.unschedulable == other.unschedulable
    }
}

fn images(node: &Value) -> HashMap<Str, i64> {
    let mut all = HashMap::new();
    for image in node.items_at(&["status", "images"]) {
        let size = image.int_at(&["sizeBytes"]).unwrap_or(0);
        for name in image.items_at(&["names"]).iter().filter_map(Value::as_str) {
            all.insert(Str::new(name), size);
        }
    }
    all
}
