//! NodeResourcesFit: a node must have the requested resources of a pod; the scoring strategy prefers emptier or fuller
//! nodes.

mod strategy;

use std::sync::Arc;

use corten_api::{Str, Value};

use crate::allocation::{self, Taken, Weighed};
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Reasons, Rejection};
use crate::node::Node;
use crate::pod::Pod;
use crate::pod::requests::Requests;
use crate::resources::{self, Resources};
use crate::snapshot::NodeIx;

pub(crate) use strategy::Strategy;

pub(crate) const NAME: &str = "NodeResourcesFit";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 1,
    points: &[Point::Filter, Point::Score],
    create: Some(|args| Ok(Arc::new(NodeResourcesFit::with_args(args)?))),
};

pub(crate) struct NodeResourcesFit {
    /// Extended resources that scheduler extenders manage, and their groups.
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
    /// True if it requests any resource.
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

/// The most insufficient resources named in a message: a pod may request tens of thousands, and every node has its own
/// reasons.
const MOST_REASONS: usize = 32;

impl Fit {
    /// All insufficient resources.
    fn complain(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let (room, place) = (cluster.snapshot.room(at), cluster.snapshot.place(at));
        let (mut reasons, mut unresolvable) = (Vec::new(), false);
        if room.pods + 1 > room.max_pods {
            reasons.push(Str::new_static("Too many pods"));
        }
        let mut lacks = |wanted: i64, all: i64, used: i64, reason: &dyn Fn() -> Str| {
            if wanted > 0 && wanted > all - used {
                if reasons.len() < MOST_REASONS {
                    reasons.push(reason());
                }
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
    /// The requests of a pod without ignored resources.
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

    /// True if the requests fit on the empty node.
    fn has_room(&self, pod: &Pod, node: &Node) -> bool {
        let (wanted, all) = (self.wanted(&pod.shape.requests), &node.allocatable);
        node.max_pods > 0
            && wanted.milli_cpu <= all.milli_cpu
            && wanted.memory <= all.memory
            && wanted.ephemeral_storage <= all.ephemeral_storage
            && wanted.scalars.iter().all(|(name, amount)| *amount <= all.scalar(name))
    }
}

/// True if the allocatable amount of a requested resource increased.
fn is_more(pod: &Pod, old: &Resources, new: &Resources) -> bool {
    let wanted = &pod.shape.requests.resources;
    (wanted.milli_cpu > 0 && new.milli_cpu > old.milli_cpu)
        || (wanted.memory > 0 && new.memory > old.memory)
        || (wanted.ephemeral_storage > 0 && new.ephemeral_storage > old.ephemeral_storage)
        || wanted.scalars.iter().any(|(name, amount)| *amount > 0 && new.scalar(name) > old.scalar(name))
}

impl NodeResourcesFit {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<NodeResourcesFit, String> {
        let strategy = match args.str_at(&["scoringStrategy", "type"]).unwrap_or("LeastAllocated") {
            "LeastAllocated" => Strategy::LeastAllocated,
            "MostAllocated" => Strategy::MostAllocated,
            "RequestedToCapacityRatio" => {
                let shape = args.items_at(&["scoringStrategy", "requestedToCapacityRatio", "shape"]);
                Strategy::RequestedToCapacityRatio(strategy::points(shape)?)
            }
            other => return Err(format!("scoringStrategy.type: Unsupported value: {other:?}")),
        };
        Ok(NodeResourcesFit {
            ignored: texts(args.items_at(&["ignoredResources"])),
            ignored_groups: texts(args.items_at(&["ignoredResourceGroups"])),
            strategy,
            resources: Weighed::of_list(args.items_at(&["scoringStrategy", "resources"]))?,
        })
    }
}

fn texts(list: &[Value]) -> Vec<Str> {
    list.iter().filter_map(Value::as_str).map(Str::new).collect()
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

    fn score_node(&self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> Option<i64> {
        let amounts = allocation::amounts(cluster, at, pod, &self.resources, Taken::Counted);
        Some(self.strategy.score(&amounts))
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
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
