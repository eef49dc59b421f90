//! The plugins, one file each, under upstream's names. A new plugin is its file and its line in `PLUGINS`.

use crate::framework::registration::Registration;

pub(crate) mod default_binder;
pub(crate) mod default_preemption;
pub(crate) mod dynamic_resources;
pub(crate) mod image_locality;
pub(crate) mod inter_pod_affinity;
pub(crate) mod node_affinity;
pub(crate) mod node_name;
pub(crate) mod node_ports;
pub(crate) mod node_resources_balanced_allocation;
pub(crate) mod node_resources_fit;
pub(crate) mod node_unschedulable;
pub(crate) mod node_volume_limits;
pub(crate) mod pod_topology_spread;
pub(crate) mod priority_sort;
pub(crate) mod scheduling_gates;
pub(crate) mod taint_toleration;
pub(crate) mod volume_binding;
pub(crate) mod volume_restrictions;
pub(crate) mod volume_zone;

/// Every plugin, in upstream's order.
pub(crate) const PLUGINS: &[Registration] = &[
    scheduling_gates::REGISTRATION,
    priority_sort::REGISTRATION,
    node_unschedulable::REGISTRATION,
    node_name::REGISTRATION,
    taint_toleration::REGISTRATION,
    node_affinity::REGISTRATION,
    node_ports::REGISTRATION,
    node_resources_fit::REGISTRATION,
    volume_restrictions::REGISTRATION,
    node_volume_limits::REGISTRATION,
    volume_binding::REGISTRATION,
    volume_zone::REGISTRATION,
    pod_topology_spread::REGISTRATION,
    inter_pod_affinity::REGISTRATION,
    dynamic_resources::REGISTRATION,
    default_preemption::REGISTRATION,
    node_resources_balanced_allocation::REGISTRATION,
    image_locality::REGISTRATION,
    default_binder::REGISTRATION,
];
