//! The plugins at each extension point and their weights: upstream's defaults, and the changes that a profile makes.

use corten_api::Value;

use super::ConfigError;
use crate::framework::registration::{Point, Registration};
use crate::plugins::PLUGINS;

/// The field of a profile that enables and disables plugins at a point.
fn field(point: Point) -> &'static str {
    match point {
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

/// A plugin and its weight.
type Enabled = (&'static str, i64);

pub(crate) struct PluginSets(Vec<(Point, Vec<Enabled>)>);

/// The settings of a profile for one extension point.
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
            let weight = item.int_at(&["weight"]).filter(|weight| *weight != 0);
            match registration(&plugin) {
                Some(found) => Ok((found.name, weight)),
                None => Err(ConfigError::UnknownPlugin { profile, plugin }),
            }
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

/// The registration of a plugin.
pub(super) fn registration(plugin: &str) -> Option<&'static Registration> {
    PLUGINS.iter().find(|known| known.name == plugin)
}

fn points(plugin: &str) -> &'static [Point] {
    registration(plugin).map_or(&[], |known| known.points)
}

fn default_weight(plugin: &str) -> i64 {
    registration(plugin).map_or(0, |known| known.weight)
}

impl PluginSets {
    pub(super) fn of(profile: usize, said: Option<&Value>) -> Result<PluginSets, ConfigError> {
        let everywhere = Said::of(profile, said.and_then(|said| said.get("multiPoint")))?;
        let mut general: Vec<Enabled> = Vec::new();
        for Registration { name: plugin, weight, .. } in PLUGINS {
            match everywhere.weight(plugin) {
                Some(said) => general.push((plugin, said.unwrap_or(*weight))),
                None if everywhere.disables(plugin) => {}
                None => general.push((plugin, *weight)),
            }
        }
        let mut sets = Vec::with_capacity(POINTS.len());
        for point in POINTS {
            let here = Said::of(profile, said.and_then(|said| said.get(field(point))))?;
            if let Some((plugin, _)) = here.enabled.iter().find(|(name, _)| !points(name).contains(&point)) {
                let (plugin, point) = ((*plugin).to_owned(), field(point));
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
