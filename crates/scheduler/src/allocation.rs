//! Resource amounts of a node for the plugins that score by resources: allocatable, requested, and requested with the
//! pod.

use corten_api::{Str, Value};

use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use crate::snapshot::NodeIx;

/// A resource and its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weighed {
    pub(crate) resource: Resource,
    pub(crate) weight: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Str),
}

impl Resource {
    pub(crate) fn named(name: &str) -> Resource {
        match name {
            CPU => Resource::Cpu,
            MEMORY => Resource::Memory,
            EPHEMERAL_STORAGE => Resource::EphemeralStorage,
            other => Resource::Scalar(other.into()),
        }
    }
}

impl Weighed {
    /// CPU and memory, with equal weights.
    pub(crate) fn defaults() -> Vec<Weighed> {
        [Resource::Cpu, Resource::Memory].map(|resource| Weighed { resource, weight: 1 }).into()
    }

    /// Reads resources and their weights; an empty list means the defaults.
    pub(crate) fn of_list(list: &[Value]) -> Result<Vec<Weighed>, String> {
        let one = |item: &Value| {
            let name = item.str_at(&["name"]).unwrap_or_default();
            let weight = item.int_at(&["weight"]).filter(|weight| *weight != 0).unwrap_or(1);
            if !(1..=100).contains(&weight) {
                return Err(format!("resource weight of {name} not in valid range [1, 100]"));
            }
            Ok(Weighed { resource: Resource::named(name), weight })
        };
        if list.is_empty() { Ok(Weighed::defaults()) } else { list.iter().map(one).collect() }
    }
}

/// The requests that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The requests as they are.
    Requested,
    /// With upstream's defaults for containers without requests.
    Counted,
}

/// The request of a pod for a resource.
pub(crate) fn wanted(pod: &Pod, weighed: &Weighed, taken: Taken) -> i64 {
    let requests = &pod.shape.requests;
    match (&weighed.resource, taken) {
        (Resource::Cpu, Taken::Counted) => requests.non_zero.0,
        (Resource::Memory, Taken::Counted) => requests.non_zero.1,
        (Resource::Cpu, Taken::Requested) => requests.resources.milli_cpu,
        (Resource::Memory, Taken::Requested) => requests.resources.memory,
        (Resource::EphemeralStorage, _) => requests.resources.ephemeral_storage,
        (Resource::Scalar(name), _) => requests.resources.scalar(name),
    }
}

/// One resource of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) allocatable: i64,
    pub(crate) taken: i64,
    /// The requested amount with the pod.
    pub(crate) would_be: i64,
}

/// The resources of a node that matter for a pod: CPU, memory and storage, and of extended ones those that the pod
/// requests.
pub(crate) fn amounts(
    cluster: &Cluster,
    at: NodeIx,
    pod: &Pod,
    resources: &[Weighed],
    taken: Taken,
) -> Vec<(Amount, i64)> {
    let room = cluster.snapshot.room(at);
    let of = |weighed: &Weighed| {
        let wanted = wanted(pod, weighed, taken);
        let (allocatable, used) = match (&weighed.resource, taken) {
            (Resource::Cpu, Taken::Counted) => (room.milli_cpu, room.counted_milli_cpu),
            (Resource::Cpu, Taken::Requested) => (room.milli_cpu, room.used_milli_cpu),
            (Resource::Memory, Taken::Counted) => (room.memory, room.counted_memory),
            (Resource::Memory, Taken::Requested) => (room.memory, room.used_memory),
            (Resource::EphemeralStorage, _) => (room.ephemeral_storage, room.used_ephemeral_storage),
            (Resource::Scalar(_), _) if wanted == 0 => return None,
            (Resource::Scalar(name), _) => {
                let node = cluster.snapshot.node(at);
                (node.allocatable.scalar(name), cluster.snapshot.place(at).used_scalar(name))
            }
        };
        let amount = Amount { allocatable, taken: used, would_be: used + wanted };
        (allocatable > 0).then_some((amount, weighed.weight))
    };
    resources.iter().filter_map(of).collect()
}
