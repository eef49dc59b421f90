//! Which plugins have a say at which point, and with what weight: upstream's defaults, and what a profile turns on or off.

use corten_api::Value;

use super::ConfigError;
use crate::plugins::{
    default_binder, default_preemption, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_name, node_ports, node_resources_balanced_allocation, node_resources_fit, node_unschedulable,
    node_volume_limits, pod_topology_spread, priority_sort, scheduling_gates, taint_toleration,
    volume_binding, volume_restrictions, volume_zone,
};

/// Where plugins have a say. What upstream calls PreFilter and PreScore belongs to Filter and Score here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    PreEnqueue,
    QueueSort,
    Filter,
    PostFilter,
    Score,
    Reserve,
    PreBind,
    Bind,
}

impl Point {
    /// The field that turns plugins on and off here.
    fn field(self) -> &'static str {
        match self {
            Point::PreEnqueue => "preEnqueue",
            Point::QueueSort => "queueSort",
            Point::Filter => "filter",
            Point::PostFilter => "postFilter",
            Point::Score => "score",
            Point::Reserve => "reserve",
            Point::PreBind => "preBind",
            Point::Bind => "bind",
        }
    }
}

const POINTS: [Point; 8] = [
    Point::PreEnqueue,
    Point::QueueSort,
    Point::Filter,
    Point::PostFilter,
    Point::Score,
    Point::Reserve,
    Point::PreBind,
    Point::Bind,
];

/// Every plugin in upstream's order, with its weight and the points it extends.
const PLUGINS: &[(&str, i64, &[Point])] = &[
    (scheduling_gates::NAME, 0, &[Point::PreEnqueue]),
    (priority_sort::NAME, 0, &[Point::QueueSort]),
    (node_unschedulable::NAME, 0, &[Point::Filter]),
    (node_name::NAME, 0, &[Point::Filter]),
    (taint_toleration::NAME, 3, &[Point::Filter, Point::Score]),
    (node_affinity::NAME, 2, &[Point::Filter, Point::Score]),
    (node_ports::NAME, 0, &[Point::Filter]),
    (node_resources_fit::NAME, 1, &[Point::Filter, Point::Score]),
    (volume_restrictions::NAME, 0, &[Point::Filter]),
    (node_volume_limits::NAME, 0, &[Point::Filter]),
    (volume_binding::NAME, 0, &[Point::Filter, Point::Reserve, Point::PreBind]),
    (volume_zone::NAME, 0, &[Point::Filter]),
    (pod_topology_spread::NAME, 2, &[Point::Filter, Point::Score]),
    (inter_pod_affinity::NAME, 2, &[Point::Filter, Point::Score]),
    (dynamic_resources::NAME, 2, &[Point::PostFilter]),
    (default_preemption::NAME, 0, &[Point::PostFilter]),
    (node_resources_balanced_allocation::NAME, 1, &[Point::Score]),
    (image_locality::NAME, 1, &[Point::Score]),
    (default_binder::NAME, 0, &[Point::Bind]),
];

/// A plugin and its weight.
type Enabled = (&'static str, i64);

pub(crate) struct PluginSets(Vec<(Point, Vec<Enabled>)>);

/// What a profile says about one point.
struct Said {
    enabled: Vec<(&'static str, Option<i64>)>,
    disabled: Vec<String>,
}

impl Said {
    fn of(profile: usize, set: Option<&Value>) -> Result<Said, ConfigError> {
        let list = |key: &str| set.map_or(&[][..], |set| set.items_at(&[key]));
        let name = |item: &Value| item.str_at(&["name"]).unwrap_or_default().to_owned();
        let known = |item: &Value| {
            let plugin = name(item);
            let found = PLUGINS.iter().find(|(known, ..)| *known == plugin);
            let weight = item.int_at(&["weight"]).filter(|weight| *weight != 0);
            found.map(|(known, ..)| (*known, weight)).ok_or(ConfigError::UnknownPlugin { profile, plugin })
        };
        let enabled = list("enabled").iter().map(known).collect::<Result<_, _>>()?;
        Ok(Said { enabled, disabled: list("disabled").iter().map(name).collect() })
    }

    fn disables(&self, plugin: &str) -> bool {
        self.disabled.iter().any(|name| name == "*" || name == plugin)
    }

    fn weight(&self, plugin: &str) -> Option<Option<i64>> {
        self.enabled.iter().find(|(name, _)| *name == plugin).map(|(_, weight)| *weight)
    }
}

fn points(plugin: &str) -> &'static [Point] {
    PLUGINS.iter().find(|(name, ..)| *name == plugin).map_or(&[], |(.., points)| points)
}

fn default_weight(plugin: &str) -> i64 {
    PLUGINS.iter().find(|(name, ..)| *name == plugin).map_or(0, |(_, weight, _)| *weight)
}

impl PluginSets {
    pub(super) fn of(profile: usize, said: Option<&Value>) -> Result<PluginSets, ConfigError> {
        let everywhere = Said::of(profile, said.and_then(|said| said.get("multiPoint")))?;
        let mut general: Vec<Enabled> = Vec::new();
        for (plugin, weight, _) in PLUGINS {
            match everywhere.weight(plugin) {
                Some(said) => general.push((plugin, said.unwrap_or(*weight))),
                None if everywhere.disables(plugin) => {}
                None => general.push((plugin, *weight)),
            }
        }
        let mut sets = Vec::with_capacity(POINTS.len());
        for point in POINTS {
            let here = Said::of(profile, said.and_then(|said| said.get(point.field())))?;
            if let Some((plugin, _)) = here.enabled.iter().find(|(name, _)| !points(name).contains(&point)) {
                let (plugin, point) = ((*plugin).to_owned(), point.field());
                return Err(ConfigError::WrongPoint { profile, plugin, point });
            }
            let specific = here.enabled.iter().map(|(name, weight)| (*name, weight.unwrap_or(1)));
            let rest = general.iter().filter(|(name, _)| {
                points(name).contains(&point) && !here.disables(name) && here.weight(name).is_none()
            });
            let weighed = |(name, weight): &Enabled| {
                (*name, if *weight == 0 { default_weight(name).max(1) } else { *weight })
            };
            sets.push((point, specific.chain(rest.map(weighed)).collect()));
        }
        Ok(PluginSets(sets))
    }

    /// The plugins at a point, in order.
    pub(super) fn at(&self, point: Point) -> Vec<Enabled> {
        self.0.iter().find(|(known, _)| *known == point).map(|(_, list)| list.clone()).unwrap_or_default()
    }
}
