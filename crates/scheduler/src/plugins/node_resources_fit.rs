//! NodeResourcesFit: a node must have room for what a pod asks for; how full it may rather be is a matter of strategy.

mod strategy;

use corten_api::Str;

use super::allocation::{self, Taken, Weighed};
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::{Filter, Plugin, PreFilter, Reasons, Rejection};
use crate::node::Node;
use crate::pod::Pod;
use crate::pod::requests::Requests;
use crate::resources::{self, Resources};
use crate::snapshot::NodeIx;

pub(crate) use strategy::Strategy;

pub(crate) const NAME: &str = "NodeResourcesFit";

pub(crate) struct NodeResourcesFit {
    /// Extended resources that somebody else looks after, and their groups.
    pub(crate) ignored: Vec<Str>,
    pub(crate) ignored_groups: Vec<Str>,
    pub(crate) strategy: Strategy,
    pub(crate) resources: Vec<Weighed>,
}

impl Default for NodeResourcesFit {
    fn default() -> NodeResourcesFit {
        NodeResourcesFit {
            ignored: Vec::new(),
            ignored_groups: Vec::new(),
            strategy: Strategy::LeastAllocated,
            resources: Weighed::defaults(),
        }
    }
}

struct Fit {
    wanted: Resources,
    /// Whether it asks for anything but a place.
    asks: bool,
}

impl Filter for Fit {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let room = cluster.snapshot.room(at);
        let wanted = &self.wanted;
        let fits = |wanted: i64, all: i64, used: i64| wanted == 0 || wanted <= all - used;
        let fast = room.pods < room.max_pods
            && fits(wanted.milli_cpu, room.milli_cpu, room.used_milli_cpu)
            && fits(wanted.memory, room.memory, room.used_memory)
            && fits(wanted.ephemeral_storage, room.ephemeral_storage, room.used_ephemeral_storage)
            && wanted.scalars.is_empty();
        if fast { None } else { self.complain(cluster, at) }
    }

    fn is_local(&self) -> bool {
        true
    }
}

impl Fit {
    /// Everything that is missing.
    fn complain(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let (room, place) = (cluster.snapshot.room(at), cluster.snapshot.place(at));
        let (mut reasons, mut unresolvable) = (Vec::new(), false);
        if room.pods + 1 > room.max_pods {
            reasons.push(Str::new_static("Too many pods"));
        }
        let mut lacks = |wanted: i64, all: i64, used: i64, reason: &dyn Fn() -> Str| {
            if wanted > 0 && wanted > all - used {
                reasons.push(reason());
                unresolvable |= wanted > all;
            }
        };
        if self.asks {
            let wanted = &self.wanted;
            lacks(wanted.milli_cpu, room.milli_cpu, room.used_milli_cpu, &|| {
                Str::new_static("Insufficient cpu")
            });
            lacks(wanted.memory, room.memory, room.used_memory, &|| Str::new_static("Insufficient memory"));
            let (all, used) = (room.ephemeral_storage, room.used_ephemeral_storage);
            lacks(wanted.ephemeral_storage, all, used, &|| Str::new_static("Insufficient ephemeral-storage"));
            let allocatable = &cluster.snapshot.node(at).allocatable;
            for (name, amount) in &wanted.scalars {
                let (all, used) = (allocatable.scalar(name), place.used_scalar(name));
                lacks(*amount, all, used, &|| format!("Insufficient {name}").into());
            }
        }
        let reasons = match reasons.len() {
            0 => return None,
            1 => Reasons::One(reasons.remove(0)),
            _ => Reasons::Many(reasons),
        };
        Some(Rejection { unresolvable, reasons })
    }
}

impl NodeResourcesFit {
    /// What a pod asks for, as far as this plugin looks after it.
    fn wanted(&self, requests: &Requests) -> Resources {
        let mut wanted = requests.resources.clone();
        wanted.scalars.retain(|(name, amount)| {
            let group = name.split_once('/').map(|(group, _)| group);
            let ignored = self.ignored.contains(name)
                || self.ignored_groups.iter().any(|ignored| Some(ignored.as_str()) == group);
            *amount != 0 && !(ignored && resources::is_extended(name))
        });
        wanted
    }

    /// Whether an empty node of this kind has room.
    fn has_room(&self, pod: &Pod, node: &Node) -> bool {
        let (wanted, all) = (self.wanted(&pod.shape.requests), &node.allocatable);
        node.max_pods > 0
            && wanted.milli_cpu <= all.milli_cpu
            && wanted.memory <= all.memory
            && wanted.ephemeral_storage <= all.ephemeral_storage
            && wanted.scalars.iter().all(|(name, amount)| *amount <= all.scalar(name))
    }
}

/// Whether some resource that a pod asks for is more now.
fn is_more(pod: &Pod, old: &Resources, new: &Resources) -> bool {
    let wanted = &pod.shape.requests.resources;
    (wanted.milli_cpu > 0 && new.milli_cpu > old.milli_cpu)
        || (wanted.memory > 0 && new.memory > old.memory)
        || (wanted.ephemeral_storage > 0 && new.ephemeral_storage > old.ephemeral_storage)
        || wanted.scalars.iter().any(|(name, amount)| *amount > 0 && new.scalar(name) > old.scalar(name))
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, _: &mut Cluster) -> PreFilter {
        let wanted = self.wanted(&pod.shape.requests);
        let asks = wanted != Resources::default();
        PreFilter::Filter(Box::new(Fit { wanted, asks }))
    }

    fn rate(&self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> Option<i64> {
        let amounts = allocation::amounts(cluster, at, pod, &self.resources, Taken::Counted);
        Some(self.strategy.score(&amounts))
    }

    fn may_help(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => self.has_room(pod, node),
            ClusterEvent::NodeChanged { old, new } => {
                let more = new.max_pods > old.max_pods || is_more(pod, &old.allocatable, &new.allocatable);
                more && self.has_room(pod, new)
            }
            ClusterEvent::PodGone(_) => true,
            ClusterEvent::AssignedPodChanged { old, new } | ClusterEvent::PodChanged { old, new } => {
                is_more(pod, &new.shape.requests.resources, &old.shape.requests.resources)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
