//! The messages of evictions, in upstream's words. Pure.

use std::fmt::Write;

use corten_api::quantity::{Format, Quantity};

use super::pressure::{self, Condition, Observations};
use super::thresholds::Threshold;
use crate::pod::{Pod, Role};
use crate::resources;
use crate::stats::{ContainerStats, PodStats};

pub(super) fn of_conditions(conditions: &[Condition]) -> String {
    let names: Vec<&str> = conditions.iter().map(|condition| condition.name()).collect();
    format!("The node had condition: [{}]. ", names.join(" "))
}

/// The message of an eviction under pressure: the resource, the threshold, and the containers that use more than they
/// requested.
pub(super) fn of_pressure(
    resource: &str,
    pod: &Pod,
    stats: Option<&PodStats>,
    thresholds: &[Threshold],
    observations: &Observations,
) -> String {
    let mut text = format!("The node was low on resource: {resource}. ");
    let short = thresholds.iter().find(|threshold| threshold.signal.resource() == resource);
    let seen = short.and_then(|short| Some((short, observations.get(&short.signal)?)));
    if let Some((short, seen)) = seen {
        let format = pressure::format(short.signal);
        let (least, left) = (short.least.of(seen.capacity, format), Quantity::new(seen.available, format));
        // Writing into a String cannot fail.
        let _ = write!(text, "Threshold quantity: {least}, available: {left}. ");
    }
    for container in stats.map(|stats| stats.containers.as_slice()).unwrap_or_default() {
        let Some(spec) = pod.container(&container.name).filter(|spec| spec.role != Role::Ephemeral) else {
            continue;
        };
        let asked = spec.tree.get("resources").and_then(|r| resources::listed(r, "requests", resource));
        let asked = asked.unwrap_or(Quantity::ZERO);
        if let Some(used) = used(resource, container).filter(|used| *used > asked) {
            let name = &container.name;
            let _ = write!(
                text,
                "Container {name} was using {used}, request is {asked}, has larger consumption of {resource}. "
            );
        }
    }
    text
}

fn used(resource: &str, container: &ContainerStats) -> Option<Quantity> {
    let bytes = match resource {
        "memory" => container.memory.as_ref()?.working_set_bytes?,
        "ephemeral-storage" => container.rootfs.as_ref()?.used + container.logs.as_ref()?.used,
        _ => return None,
    };
    Some(Quantity::new(i64::try_from(bytes).ok()?, Format::BinarySi))
}
