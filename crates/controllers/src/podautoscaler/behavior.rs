//! The scaling behavior of an autoscaler: stabilization windows, rate policies, and the bounds of its spec.
//!
//! Recent recommendations and scale events are kept in memory only: after a restart an autoscaler starts from the scale
//! it finds.

use std::time::Duration;

use corten_api::Value;
use jiff::{SignedDuration, Timestamp};

/// Recent recommendations and scale events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) recommendations: Vec<(Timestamp, i64)>,
    /// The changes in replicas of scale-ups and scale-downs.
    pub(super) grown: Vec<(Timestamp, i64)>,
    pub(super) shrunk: Vec<(Timestamp, i64)>,
}

/// The normalized recommendation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Normalized {
    pub(super) replicas: i64,
    /// Reason and message of AbleToScale, which is `True`.
    pub(super) able: (&'static str, &'static str),
    /// The status of ScalingLimited, with its reason and message.
    pub(super) limited: (bool, &'static str, &'static str),
}

/// The bounds of the replicas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) min: i64,
    pub(super) max: i64,
}

type Verdict = (i64, &'static str, &'static str);

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const SCALE_UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const SCALE_DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const SCALE_UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const SCALE_DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

fn verdict(replicas: i64, (reason, message): (&'static str, &'static str)) -> Verdict {
    (replicas, reason, message)
}

fn normalized(
    desired: i64,
    stabilized: i64,
    why: (&'static str, &'static str),
    verdict: Verdict,
) -> Normalized {
    let (replicas, reason, message) = verdict;
    Normalized {
        replicas,
        able: if stabilized == desired { READY } else { why },
        limited: (replicas != stabilized, reason, message),
    }
}

impl Memory {
    /// Limits the desired replicas of an autoscaler without a behavior: it scales down only to the highest recent
    /// recommendation, and scales up at most to twice its current size.
    pub(super) fn normalize(
        &mut self,
        current: i64,
        desired: i64,
        bounds: Bounds,
        window: Duration,
        now: Timestamp,
    ) -> Normalized {
        let cutoff = earlier(now, window);
        self.recommendations.retain(|(at, _)| *at >= cutoff);
        let stabilized = self.recommendations.iter().map(|(_, count)| *count).fold(desired, i64::max);
        self.recommendations.push((now, desired));
        let limit = (2 * current).max(4);
        let (most, why) = if bounds.max > limit { (limit, SCALE_UP_LIMIT) } else { (bounds.max, TOO_MANY) };
        let limited = if stabilized < bounds.min {
            verdict(bounds.min, TOO_FEW)
        } else if stabilized > most {
            verdict(most, why)
        } else {
            verdict(stabilized, WITHIN)
        };
        normalized(desired, stabilized, SCALE_DOWN_STABILIZED, limited)
    }

    /// Limits the desired replicas of an autoscaler with a behavior: by the recommendations in its stabilization
    /// windows, and by the rates of its policies.
    pub(super) fn normalize_by(
        &mut self,
        behavior: &Behavior,
        current: i64,
        desired: i64,
        bounds: Bounds,
        now: Timestamp,
    ) -> Normalized {
        let (up, down) = (earlier(now, behavior.up.window), earlier(now, behavior.down.window));
        let after = |cutoff: Timestamp| {
            self.recommendations.iter().filter(move |(at, _)| *at > cutoff).map(|(_, count)| *count)
        };
        let lowest = after(up).fold(desired, i64::min);
        let highest = after(down).fold(desired, i64::max);
        let stabilized = current.max(lowest).min(highest);
        self.recommendations.retain(|(at, _)| *at >= up || *at >= down);
        self.recommendations.push((now, desired));
        let why = if desired >= current { SCALE_UP_STABILIZED } else { SCALE_DOWN_STABILIZED };
        normalized(desired, stabilized, why, self.limit(behavior, current, stabilized, bounds, now))
    }

    fn limit(
        &self,
        behavior: &Behavior,
        current: i64,
        desired: i64,
        bounds: Bounds,
        now: Timestamp,
    ) -> Verdict {
        if desired > current {
            let limit = behavior.up.most(self, current, now).max(current);
            let (most, why) =
                if bounds.max > limit { (limit, SCALE_UP_LIMIT) } else { (bounds.max, TOO_MANY) };
            if desired > most {
                return verdict(most, why);
            }
        } else if desired < current {
            let limit = behavior.down.least(self, current, now).min(current);
            let (least, why) =
                if bounds.min < limit { (limit, SCALE_DOWN_LIMIT) } else { (bounds.min, TOO_FEW) };
            if desired < least {
                return verdict(least, why);
            }
        }
        verdict(desired, WITHIN)
    }

    /// Records a change of scale.
    pub(super) fn rescaled(&mut self, behavior: &Behavior, from: i64, to: i64, now: Timestamp) {
        let (changes, rules) =
            if to > from { (&mut self.grown, &behavior.up) } else { (&mut self.shrunk, &behavior.down) };
        let longest = rules.policies.iter().map(|policy| policy.period).max().unwrap_or_default();
        changes.retain(|(at, _)| *at >= earlier(now, longest));
        changes.push((now, (to - from).abs()));
    }

    /// The number of replicas at the beginning of a period.
    fn replicas_before(&self, current: i64, period: Duration, now: Timestamp) -> i64 {
        let cutoff = earlier(now, period);
        let sum = |changes: &[(Timestamp, i64)]| -> i64 {
            changes.iter().filter(|(at, _)| *at > cutoff).map(|(_, count)| count).sum()
        };
        current - sum(&self.grown) + sum(&self.shrunk)
    }
}

/// The rules of both directions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Behavior {
    up: Rules,
    down: Rules,
}

#[derive(Debug, Clone, PartialEq)]
struct Rules {
    window: Duration,
    select: Select,
    policies: Vec<Policy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Select {
    /// The policy that allows the largest change.
    Most,
    Least,
    Disabled,
}

#[derive(Debug, Clone, PartialEq)]
struct Policy {
    is_percent: bool,
    value: i64,
    period: Duration,
}

impl Behavior {
    /// The behavior of a spec, with the API's defaults; `window` is the default stabilization window of scale-downs.
    pub(super) fn of(behavior: &Value, window: Duration) -> Behavior {
        let policy = |is_percent, value| Policy { is_percent, value, period: Duration::from_secs(15) };
        let up = Rules::of(behavior.get("scaleUp"), Duration::ZERO, &[policy(false, 4), policy(true, 100)]);
        Behavior { up, down: Rules::of(behavior.get("scaleDown"), window, &[policy(true, 100)]) }
    }
}

impl Rules {
    fn of(rules: Option<&Value>, window: Duration, policies: &[Policy]) -> Rules {
        let seconds = |value: Option<i64>| value.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
        let rules = rules.unwrap_or(&Value::Null);
        let policy = |policy: &Value| Policy {
            is_percent: policy.str_at(&["type"]) == Some("Percent"),
            value: policy.int_at(&["value"]).unwrap_or(0),
            period: seconds(policy.int_at(&["periodSeconds"])).unwrap_or_default(),
        };
        let given: Vec<Policy> = rules.items_at(&["policies"]).iter().map(policy).collect();
        Rules {
            window: seconds(rules.int_at(&["stabilizationWindowSeconds"])).unwrap_or(window),
            select: match rules.str_at(&["selectPolicy"]) {
                Some("Disabled") => Select::Disabled,
                Some("Min") => Select::Least,
                _ => Select::Most,
            },
            policies: if given.is_empty() { policies.to_vec() } else { given },
        }
    }

    /// The largest number of replicas that the policies allow.
    fn most(&self, memory: &Memory, current: i64, now: Timestamp) -> i64 {
        let proposed = self.policies.iter().map(|policy| {
            let before = memory.replicas_before(current, policy.period, now);
            match policy.is_percent {
                // Rounded up, so that the smallest target still grows.
                true => (before as f64 * (1.0 + policy.value as f64 / 100.0)).ceil() as i64,
                false => before + policy.value,
            }
        });
        match self.select {
            Select::Disabled => current,
            Select::Most => proposed.max().unwrap_or(current),
            Select::Least => proposed.min().unwrap_or(current),
        }
    }

    /// The smallest number of replicas that the policies allow.
    fn least(&self, memory: &Memory, current: i64, now: Timestamp) -> i64 {
        let proposed = self.policies.iter().map(|policy| {
            let before = memory.replicas_before(current, policy.period, now);
            match policy.is_percent {
                true => (before as f64 * (1.0 - policy.value as f64 / 100.0)) as i64,
                false => before - policy.value,
            }
        });
        match self.select {
            Select::Disabled => current,
            Select::Most => proposed.min().unwrap_or(current),
            Select::Least => proposed.max().unwrap_or(current),
        }
    }
}
