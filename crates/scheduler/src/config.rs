//! The scheduler's configuration: `KubeSchedulerConfiguration` v1, with upstream's defaults.

mod plugin_sets;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_base::Backoff;

use crate::framework::Plugin;
use crate::framework::profile::{Plugins, Profile};
use crate::framework::registration::Point;
use plugin_sets::PluginSets;

const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The reason why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "no kind \"{kind}\" is registered for version \"{api_version}\"; a scheduler takes a KubeSchedulerConfiguration of {API_VERSION}"
    )]
    NotAConfiguration { kind: String, api_version: String },
    #[error("profiles[{profile}]: plugin {plugin:?} does not exist")]
    UnknownPlugin { profile: usize, plugin: String },
    #[error("profiles[{profile}].plugins.{point}: plugin {plugin:?} does not extend {point} plugin")]
    WrongPoint { profile: usize, plugin: String, point: &'static str },
    #[error("profiles[{profile}].pluginConfig[{plugin}]: {complaint}")]
    Args { profile: usize, plugin: String, complaint: String },
    #[error("profiles[{profile}].schedulerName: Duplicate value: {name:?}")]
    Duplicate { profile: usize, name: String },
    #[error("{field}: Invalid value: {value}: {complaint}")]
    Invalid { field: String, value: i64, complaint: &'static str },
}

/// A scheduler's configuration.
pub struct Config {
    pub(crate) percentage: usize,
    pub(crate) backoff: Backoff,
    pub(crate) profiles: Vec<Profile>,
}

impl Default for Config {
    fn default() -> Config {
        let profile = profile(0, &Value::object()).unwrap_or_else(|error| unreachable!("{error}"));
        Config { percentage: 0, backoff: backoff(1, 10), profiles: vec![profile] }
    }
}

fn backoff(first: u64, longest: u64) -> Backoff {
    Backoff { first: Duration::from_secs(first), longest: Duration::from_secs(longest) }
}

impl Config {
    /// Parses a configuration.
    pub fn of(config: &Value) -> Result<Config, ConfigError> {
        let (kind, api_version) = (meta::kind(config), meta::api_version(config));
        if kind != "KubeSchedulerConfiguration" || api_version != API_VERSION {
            let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
            return Err(ConfigError::NotAConfiguration { kind, api_version });
        }
        let percentage = percentage(config, "percentageOfNodesToScore")?.unwrap_or(0);
        let first = seconds(config, "podInitialBackoffSeconds", 1)?;
        let longest = seconds(config, "podMaxBackoffSeconds", 10)?;
        if longest < first {
            let complaint = "must be greater than or equal to PodInitialBackoffSeconds";
            let value = i64::try_from(longest).unwrap_or(i64::MAX);
            return Err(ConfigError::Invalid { field: "podMaxBackoffSeconds".to_owned(), value, complaint });
        }
        let none = [Value::object()];
        let list = match config.items_at(&["profiles"]) {
            [] => &none[..],
            list => list,
        };
        let mut profiles: Vec<Profile> = Vec::with_capacity(list.len());
        for (at, value) in list.iter().enumerate() {
            let profile = profile(at, value)?;
            if profiles.iter().any(|known| known.scheduler == profile.scheduler) {
                return Err(ConfigError::Duplicate { profile: at, name: profile.scheduler.to_string() });
            }
            profiles.push(profile);
        }
        let percentage = usize::try_from(percentage).unwrap_or(0);
        Ok(Config { percentage, backoff: backoff(first, longest), profiles })
    }
}

fn percentage(value: &Value, field: &str) -> Result<Option<i64>, ConfigError> {
    match value.int_at(&[field]) {
        Some(value) if !(0..=100).contains(&value) => {
            let complaint = "not in valid range [0-100]";
            Err(ConfigError::Invalid { field: field.to_owned(), value, complaint })
        }
        said => Ok(said),
    }
}

fn seconds(config: &Value, field: &str, unless_said: u64) -> Result<u64, ConfigError> {
    match config.int_at(&[field]) {
        None | Some(0) => Ok(unless_said),
        Some(value) => u64::try_from(value).map_err(|_| {
            let complaint = "must be greater than 0";
            ConfigError::Invalid { field: field.to_owned(), value, complaint }
        }),
    }
}

/// Creates a plugin from its arguments.
fn create(plugin: &str, args: &Value) -> Result<Arc<dyn Plugin>, String> {
    match plugin_sets::registration(plugin).and_then(|known| known.create) {
        Some(create) => create(args),
        None => Err("is not called through the framework".to_owned()),
    }
}

fn profile(at: usize, value: &Value) -> Result<Profile, ConfigError> {
    let name = value.str_at(&["schedulerName"]).unwrap_or(DEFAULT_SCHEDULER);
    let sets = PluginSets::of(at, value.get("plugins"))?;
    let args = value.items_at(&["pluginConfig"]);
    let none = Value::object();
    let make = |plugin: &str| {
        let found = args.iter().find(|item| item.str_at(&["name"]) == Some(plugin));
        let args = found.and_then(|item| item.get("args"));
        create(plugin, args.unwrap_or(&none)).map_err(|complaint| ConfigError::Args {
            profile: at,
            plugin: plugin.to_owned(),
            complaint,
        })
    };
    let plugins = |point: Point| -> Result<Vec<_>, ConfigError> {
        sets.at(point).into_iter().map(|(name, _)| make(name)).collect()
    };
    let score = |(name, weight): (&str, i64)| Ok((make(name)?, weight));
    let scores: Result<Vec<_>, ConfigError> = sets.at(Point::Score).into_iter().map(score).collect();
    let percentage = percentage(value, "percentageOfNodesToScore")?;
    let plugins = Plugins {
        gates: plugins(Point::PreEnqueue)?,
        filters: plugins(Point::Filter)?,
        post_filters: plugins(Point::PostFilter)?,
        reserves: plugins(Point::Reserve)?,
        scores: scores?,
    };
    Ok(Profile::new(Str::new(name), percentage, plugins))
}

#[cfg(test)]
mod tests;
