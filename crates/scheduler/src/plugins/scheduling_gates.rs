//! SchedulingGates: a pod with scheduling gates is not scheduled before all are removed.

use std::sync::Arc;

use crate::framework::Plugin;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::pod::Pod;

pub(crate) const NAME: &str = "SchedulingGates";

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::PreEnqueue],
    create: Some(|_| Ok(Arc::new(SchedulingGates))),
};

pub(crate) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_enqueue(&self, pod: &Pod) -> Option<String> {
        let gates: Vec<&str> = pod.gates.iter().map(|gate| gate.as_str()).collect();
        (!gates.is_empty()).then(|| format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }

    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::PodChanged { new, .. } if new.gates.is_empty())
    }
}
