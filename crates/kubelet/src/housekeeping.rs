//! What a node does for itself from time to time: evicts, collects, rotates. How it is told to, and when it does.

use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_api::quantity::Quantity;

use crate::collection::{self, ContainerPolicy, ImagePolicy, LogPolicy};
use crate::eviction;
use crate::machine::Machine;

/// How often pressure and logs are looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// Every so many of these, dead containers go; and images.
const PERIODS_PER_CONTAINERS: u64 = 6;
const PERIODS_PER_IMAGES: u64 = 30;
/// After a pod had to go, it is looked again soon.
const SOON: Duration = Duration::from_secs(1);

/// How a node keeps itself in order.
#[derive(Debug, Clone)]
pub(crate) struct Housekeeping {
    pub(crate) eviction: eviction::Options,
    pub(crate) images: ImagePolicy,
    pub(crate) containers: ContainerPolicy,
    pub(crate) logs: LogPolicy,
    period: Duration,
}

impl Housekeeping {
    /// Reads the fields of a `KubeletConfiguration`; what it does not say is as upstream has it.
    pub(crate) fn read(configuration: &Value) -> Result<Housekeeping, String> {
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
            return Err(format!(
                "LowThresholdPercent {low} can not be higher than HighThresholdPercent {high}"
            ));
        }
        Ok(Housekeeping {
            eviction: eviction::Options::read(configuration, duration)?,
            images,
            containers: ContainerPolicy::default(),
            logs: logs(configuration)?,
            period: duration("containerLogMonitorInterval", PERIOD).min(PERIOD).max(SOON),
        })
    }
}

fn logs(configuration: &Value) -> Result<LogPolicy, String> {
    let mut policy = LogPolicy::default();
    if let Some(text) = configuration.str_at(&["containerLogMaxSize"]).filter(|text| !text.is_empty()) {
        let size = Quantity::parse(text);
        let size = size.map_err(|e| format!("failed to parse container log max size {text:?}: {e}"))?;
        // Less than nothing is no limit.
        policy.most_bytes = u64::try_from(size.value()).unwrap_or(u64::MAX);
    }
    if let Some(files) = configuration.int_at(&["containerLogMaxFiles"]) {
        let enough = usize::try_from(files).ok().filter(|files| *files > 1);
        policy.most_files = enough.ok_or_else(|| format!("invalid MaxFiles {files}, must be > 1"))?;
    }
    Ok(policy)
}

/// Keeps the node in order, for good.
pub(crate) async fn run(machine: Arc<Machine>) {
    let clock = machine.clock.clone();
    collection::note_images(&machine).await;
    for round in 1u64.. {
        let mut wait = machine.housekeeping.period;
        if eviction::look(&machine).await {
            wait = SOON;
        }
        collection::rotate_logs(&machine).await;
        if round.is_multiple_of(PERIODS_PER_CONTAINERS) {
            collection::remove_dead_containers(&machine, false).await;
        }
        if round.is_multiple_of(PERIODS_PER_IMAGES) {
            collection::collect_images(&machine).await;
        }
        clock.sleep(wait).await;
    }
}

/// A duration in Go's notation, such as `1m30s`.
pub(crate) fn go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
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
    fn what_is_not_said_is_as_upstream_has_it() {
        let read = Housekeeping::read(&value!({})).unwrap();
        assert_eq!((read.images, read.logs), (ImagePolicy::default(), LogPolicy::default()));
        assert_eq!(read.eviction.thresholds.len(), 6);
        assert_eq!(read.eviction.transition, Duration::from_secs(300));
    }

    #[test]
    fn what_is_said_counts() {
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
        assert_eq!(read.images, expected);
        assert_eq!(read.logs, LogPolicy { most_bytes: 1 << 20, most_files: 3 });
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
