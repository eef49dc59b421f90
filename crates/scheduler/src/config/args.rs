//! The plugins' own arguments, and the plugins made with them.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Map, Str, Value};

use crate::framework::{MAX_SCORE, Plugin};
use crate::node_selector::{PreferredTerm, RequiredNodes};
use crate::plugins::allocation::{Resource, Weighed};
use crate::plugins::default_preemption::{self, DefaultPreemption};
use crate::plugins::dynamic_resources::{self, DynamicResources};
use crate::plugins::image_locality::{self, ImageLocality};
use crate::plugins::inter_pod_affinity::{self, InterPodAffinity};
use crate::plugins::node_affinity::{self, NodeAffinity};
use crate::plugins::node_name::{self, NodeName};
use crate::plugins::node_ports::{self, NodePorts};
use crate::plugins::node_resources_balanced_allocation::{self, BalancedAllocation};
use crate::plugins::node_resources_fit::{self, NodeResourcesFit, Strategy};
use crate::plugins::node_unschedulable::{self, NodeUnschedulable};
use crate::plugins::node_volume_limits::{self, NodeVolumeLimits};
use crate::plugins::pod_topology_spread::{self, PodTopologySpread};
use crate::plugins::scheduling_gates::{self, SchedulingGates};
use crate::plugins::taint_toleration::{self, TaintToleration};
use crate::plugins::volume_binding::{self, VolumeBinding};
use crate::plugins::volume_restrictions::{self, VolumeRestrictions};
use crate::plugins::volume_zone::{self, VolumeZone};
use crate::pod::terms::Spread;

/// The highest score of a point of a shape.
const HIGHEST_POINT: i64 = 10;

/// Makes a plugin.
pub(super) fn make(name: &str, args: Option<&Value>) -> Result<Arc<dyn Plugin>, String> {
    let none = Value::object();
    let args = args.unwrap_or(&none);
    Ok(match name {
        scheduling_gates::NAME => Arc::new(SchedulingGates),
        node_name::NAME => Arc::new(NodeName),
        node_unschedulable::NAME => Arc::new(NodeUnschedulable),
        taint_toleration::NAME => Arc::new(TaintToleration),
        node_affinity::NAME => Arc::new(node_affinity(args)),
        node_ports::NAME => Arc::new(NodePorts),
        node_resources_fit::NAME => Arc::new(node_resources_fit(args)?),
        node_resources_balanced_allocation::NAME => {
            Arc::new(BalancedAllocation { resources: weighed(args.items_at(&["resources"]))? })
        }
        pod_topology_spread::NAME => Arc::new(pod_topology_spread(args)?),
        inter_pod_affinity::NAME => Arc::new(inter_pod_affinity(args)?),
        volume_restrictions::NAME => Arc::new(VolumeRestrictions),
        node_volume_limits::NAME => Arc::new(NodeVolumeLimits),
        volume_binding::NAME => Arc::new(volume_binding(args)?),
        volume_zone::NAME => Arc::new(VolumeZone),
        default_preemption::NAME => Arc::new(default_preemption(args)?),
        dynamic_resources::NAME => Arc::new(DynamicResources),
        image_locality::NAME => Arc::new(ImageLocality),
        _ => return Err("has no say here".to_owned()),
    })
}

fn node_affinity(args: &Value) -> NodeAffinity {
    let required = args.at(&["addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]);
    let preferred = args.items_at(&["addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
    NodeAffinity {
        added: required.map(RequiredNodes::of_selector).unwrap_or_default(),
        added_preferred: PreferredTerm::all(preferred),
    }
}

fn texts(list: &[Value]) -> Vec<Str> {
    list.iter().filter_map(Value::as_str).map(Str::new).collect()
}

/// Resources with their weights; cores and memory unless others are given.
fn weighed(list: &[Value]) -> Result<Vec<Weighed>, String> {
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

fn node_resources_fit(args: &Value) -> Result<NodeResourcesFit, String> {
    let strategy = match args.str_at(&["scoringStrategy", "type"]).unwrap_or("LeastAllocated") {
        "LeastAllocated" => Strategy::LeastAllocated,
        "MostAllocated" => Strategy::MostAllocated,
        "RequestedToCapacityRatio" => {
            let shape = args.items_at(&["scoringStrategy", "requestedToCapacityRatio", "shape"]);
            Strategy::RequestedToCapacityRatio(line(shape)?)
        }
        other => return Err(format!("scoringStrategy.type: Unsupported value: {other:?}")),
    };
    Ok(NodeResourcesFit {
        ignored: texts(args.items_at(&["ignoredResources"])),
        ignored_groups: texts(args.items_at(&["ignoredResourceGroups"])),
        strategy,
        resources: weighed(args.items_at(&["scoringStrategy", "resources"]))?,
    })
}

/// The points of a shape, with scores as nodes have them.
fn line(shape: &[Value]) -> Result<Vec<(i64, i64)>, String> {
    if shape.is_empty() {
        return Err("at least one point must be specified".to_owned());
    }
    let mut points: Vec<(i64, i64)> = Vec::with_capacity(shape.len());
    for point in shape {
        let number = |key: &str| point.int_at(&[key]).unwrap_or(0);
        let (utilization, score) = (number("utilization"), number("score"));
        if !(0..=100).contains(&utilization) || !(0..=HIGHEST_POINT).contains(&score) {
            return Err("a point's utilization must be in [0, 100] and its score in [0, 10]".to_owned());
        }
        if points.last().is_some_and(|(before, _)| *before >= utilization) {
            return Err("utilization values must be sorted in increasing order".to_owned());
        }
        points.push((utilization, score * (MAX_SCORE / HIGHEST_POINT)));
    }
    Ok(points)
}

fn pod_topology_spread(args: &Value) -> Result<PodTopologySpread, String> {
    let constraints = args.items_at(&["defaultConstraints"]);
    match args.str_at(&["defaultingType"]).unwrap_or("System") {
        "System" if constraints.is_empty() => Ok(PodTopologySpread::default()),
        "System" => Err("when .defaultingType is System, .defaultConstraints must be empty".to_owned()),
        "List" => {
            let defaults = constraints.iter().map(|constraint| Spread::of(constraint, &Map::new())).collect();
            Ok(PodTopologySpread { defaults, system_defaults: false })
        }
        other => Err(format!("defaultingType: Unsupported value: {other:?}")),
    }
}

fn default_preemption(args: &Value) -> Result<DefaultPreemption, String> {
    let defaults = DefaultPreemption::default();
    let number = |key: &str, unless_said: usize| match args.int_at(&[key]) {
        None => Ok(unless_said),
        Some(said) => usize::try_from(said).map_err(|_| format!("{key}: not in the range [0, inf)")),
    };
    let least_percent = number("minCandidateNodesPercentage", defaults.least_percent)?;
    if least_percent > 100 {
        return Err("minCandidateNodesPercentage: not in valid range [0, 100]".to_owned());
    }
    Ok(DefaultPreemption { least_percent, least: number("minCandidateNodesAbsolute", defaults.least)? })
}

fn volume_binding(args: &Value) -> Result<VolumeBinding, String> {
    let Some(seconds) = args.int_at(&["bindTimeoutSeconds"]) else { return Ok(VolumeBinding::default()) };
    let refused = || {
        format!(
            "bindTimeoutSeconds: Invalid value: {seconds}: invalid BindTimeoutSeconds, should not be a negative value"
        )
    };
    let seconds = u64::try_from(seconds).map_err(|_| refused())?;
    Ok(VolumeBinding { patience: Duration::from_secs(seconds) })
}

fn inter_pod_affinity(args: &Value) -> Result<InterPodAffinity, String> {
    let hard_weight = args.int_at(&["hardPodAffinityWeight"]).unwrap_or(1);
    if !(0..=100).contains(&hard_weight) {
        return Err("hardPodAffinityWeight: not in valid range [0, 100]".to_owned());
    }
    let ignores_others = args.bool_at(&["ignorePreferredTermsOfExistingPods"]) == Some(true);
    Ok(InterPodAffinity { hard_weight, ignores_others })
}
