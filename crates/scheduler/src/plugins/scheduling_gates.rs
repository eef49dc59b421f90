//! SchedulingGates: a pod with gates is not tried before the last one is gone.

use crate::framework::Plugin;
use crate::framework::event::ClusterEvent;
use crate::pod::Pod;

pub(crate) const NAME: &str = "SchedulingGates";

pub(crate) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        NAME
    }

    fn holds_back(&self, pod: &Pod) -> Option<String> {
        let gates: Vec<&str> = pod.gates.iter().map(|gate| gate.as_str()).collect();
        (!gates.is_empty()).then(|| format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }

    fn may_help(&self, _: &Pod, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::PodChanged { new, .. } if new.gates.is_empty())
    }
}
