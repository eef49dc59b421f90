//! Periodic work of the kubelet: eviction, log rotation and garbage collection. Its settings, and its loop.

use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_api::quantity::Quantity;

use crate::eviction::{self, ThresholdError};
use crate::garbage_collection::{self, ContainerPolicy, ImagePolicy, LogPolicy, Policies};
use crate::kubelet::Kubelet;

/// The time between checks of eviction thresholds and logs.
const PERIOD: Duration = Duration::from_secs(10);
/// The number of periods between garbage collections of containers, and of images.
const PERIODS_PER_CONTAINERS: u64 = 6;
const PERIODS_PER_IMAGES: u64 = 30;
/// The time before the next check after a pod was evicted.
const SOON: Duration = Duration::from_secs(1);

/// The settings of eviction and garbage collection.
#[derive(Debug, Clone)]
pub(crate) struct Housekeeping {
    pub(crate) eviction: eviction::Options,
    pub(crate) collection: Policies,
    pub(crate) period: Duration,
}

/// A setting of the configuration that cannot be used; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HousekeepingError {
    #[error("LowThresholdPercent {low} can not be higher than HighThresholdPercent {high}")]
    ImageThresholds { low: u64, high: u64 },
    #[error("failed to parse container log max size {0:?}: {1}")]
    LogSize(String, String),
    #[error("invalid MaxFiles {0}, must be > 1")]
    LogFiles(i64),
    #[error(transparent)]
    Eviction(#[from] ThresholdError),
}

/// A text that is not a duration in Go's notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time: invalid duration {0:?}")]
pub(crate) struct InvalidDuration(String);

impl Housekeeping {
    /// Reads the fields of a `KubeletConfiguration`, with upstream's defaults.
    pub(crate) fn read(configuration: &Value) -> Result<Housekeeping, HousekeepingError> {
        let duration = |field: &str, default: Duration| {
            let text = configuration.str_at(&[field]).filter(|text| !text.is_empty());
            text.and_then(|text| go_duration(text).ok()).unwrap_or(default)
        };
        let number = |field: &str| configuration.int_at(&[field]).and_then(|n| u64::try_from(n).ok());
        let images = ImagePolicy::default();
        let images = ImagePolicy {
            high: number("imageGCHighThresholdPercent").unwrap_or(images.high),
            low: number("imageGCLowThresholdPercent").unwrap_or(images.low),
            least_age: duration("imageMinimumGCAge", images.least_age),
            most_age: Some(duration("imageMaximumGCAge", Duration::ZERO)).filter(|age| !age.is_zero()),
        };
        if images.low > images.high {
            let ImagePolicy { low, high, .. } = images;
            return Err(HousekeepingError::ImageThresholds { low, high });
        }
        Ok(Housekeeping {
            eviction: eviction::Options::read(configuration, duration)?,
            collection: Policies {
                images,
                containers: ContainerPolicy::default(),
                logs: logs(configuration)?,
            },
            period: duration("containerLogMonitorInterval", PERIOD).min(PERIOD).max(SOON),
        })
    }
}

fn logs(configuration: &Value) -> Result<LogPolicy, HousekeepingError> {
    let mut policy = LogPolicy::default();
    if let Some(text) = configuration.str_at(&["containerLogMaxSize"]).filter(|text| !text.is_empty()) {
        let size = Quantity::parse(text);
        let size = size.map_err(|err| HousekeepingError::LogSize(text.to_owned(), err.to_string()))?;
        // A negative size means no limit.
        policy.most_bytes = u64::try_from(size.value()).unwrap_or(u64::MAX);
    }
    if let Some(files) = configuration.int_at(&["containerLogMaxFiles"]) {
        let enough = usize::try_from(files).ok().filter(|files| *files > 1);
        policy.most_files = enough.ok_or(HousekeepingError::LogFiles(files))?;
    }
    Ok(policy)
}

/// Runs eviction, log rotation and garbage collection periodically, for good.
pub(crate) async fn run(kubelet: Arc<Kubelet>, period: Duration) {
    let clock = kubelet.clock.clone();
    garbage_collection::record_images(&kubelet).await;
    for round in 1u64.. {
        let mut wait = period;
        if eviction::synchronize(&kubelet).await {
            wait = SOON;
        }
        garbage_collection::rotate_logs(&kubelet).await;
        if round.is_multiple_of(PERIODS_PER_CONTAINERS) {
            garbage_collection::remove_dead_containers(&kubelet, false).await;
        }
        if round.is_multiple_of(PERIODS_PER_IMAGES) {
            garbage_collection::collect_images(&kubelet).await;
        }
        clock.sleep(wait).await;
    }
}

/// A duration in Go's notation, such as `1m30s`.
pub(crate) fn go_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.to_owned());
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "" if number == 0.0 => 0.0,
                _ => return Err(invalid()),
            };
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn unset_fields_have_upstreams_defaults() {
        let read = Housekeeping::read(&value!({})).unwrap();
        assert_eq!(
            (read.collection.images, read.collection.logs),
            (ImagePolicy::default(), LogPolicy::default())
        );
        assert_eq!(read.eviction.thresholds.len(), 6);
        assert_eq!(read.eviction.transition, Duration::from_secs(300));
    }

    #[test]
    fn set_fields_are_read() {
        let read = Housekeeping::read(&value!({
            "imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 0, "imageMinimumGCAge": "1m30s",
            "imageMaximumGCAge": "24h", "containerLogMaxSize": "1Mi", "containerLogMaxFiles": 3,
            "evictionHard": {"memory.available": "5%"}, "evictionPressureTransitionPeriod": "10s",
        }))
        .unwrap();
        let expected = ImagePolicy {
            high: 70,
            low: 0,
            least_age: Duration::from_secs(90),
            most_age: Some(Duration::from_secs(86_400)),
        };
        assert_eq!(read.collection.images, expected);
        assert_eq!(read.collection.logs, LogPolicy { most_bytes: 1 << 20, most_files: 3 });
        assert_eq!((read.eviction.thresholds.len(), read.eviction.transition), (2, Duration::from_secs(10)));
        for wrong in [
            value!({"containerLogMaxFiles": 1}),
            value!({"containerLogMaxSize": "many"}),
            value!({"imageGCHighThresholdPercent": 10}),
            value!({"evictionHard": {"memory.left": "1"}}),
            value!({"evictionSoft": {"memory.available": "1Gi"}}),
        ] {
            assert!(Housekeeping::read(&wrong).is_err());
        }
    }
}
