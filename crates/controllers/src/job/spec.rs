//! A job's spec and recorded status.

use std::time::Duration;

use corten_api::{Value, meta, time};
use jiff::Timestamp;

use super::indexes::Indexes;
use crate::conditions;

/// A job as it is.
#[derive(Debug, Clone)]
pub(super) struct Job(pub(super) Value);

impl Job {
    fn spec(&self, key: &str) -> Option<&Value> {
        self.0.at(&["spec", key])
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.spec(key).and_then(Value::as_int)
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec("completionMode").and_then(Value::as_str) == Some("Indexed")
    }

    /// True if its completion mode is supported.
    pub(super) fn mode_is_known(&self) -> bool {
        matches!(self.0.str_at(&["spec", "completionMode"]), None | Some("Indexed" | "NonIndexed"))
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.0.bool_at(&["spec", "suspend"]) == Some(true)
    }

    pub(super) fn is_deleting(&self) -> bool {
        meta::is_deleting(&self.0)
    }

    pub(super) fn completions(&self) -> Option<i64> {
        self.number("completions")
    }

    pub(super) fn parallelism(&self) -> i64 {
        self.number("parallelism").unwrap_or(1)
    }

    pub(super) fn backoff_limit(&self) -> i64 {
        self.number("backoffLimit").unwrap_or(6)
    }

    pub(super) fn backoff_limit_per_index(&self) -> Option<i64> {
        self.number("backoffLimitPerIndex")
    }

    pub(super) fn max_failed_indexes(&self) -> Option<i64> {
        self.number("maxFailedIndexes")
    }

    pub(super) fn pod_failure_policy(&self) -> Option<&Value> {
        self.spec("podFailurePolicy")
    }

    pub(super) fn success_policy(&self) -> Option<&Value> {
        self.spec("successPolicy")
    }

    /// True if pods are replaced only after they have terminated, not when they start to.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.0.str_at(&["spec", "podReplacementPolicy"]) == Some("Failed")
    }

    /// True if failed containers are restarted in place.
    pub(super) fn restarts_in_place(&self) -> bool {
        self.0.str_at(&["spec", "template", "spec", "restartPolicy"]) == Some("OnFailure")
    }

    /// Its start time; now, if it is about to start.
    pub(super) fn started(&self, now: Timestamp) -> Option<Timestamp> {
        let known = self.0.str_at(&["status", "startTime"]).and_then(|text| time::parse(text).ok());
        known.or_else(|| (!self.is_suspended()).then_some(now))
    }

    /// The time left before the active deadline, if there is one; zero if it has passed.
    pub(super) fn time_left(&self, now: Timestamp) -> Option<Duration> {
        let limit = Duration::from_secs(self.number("activeDeadlineSeconds")?.try_into().ok()?);
        if self.is_suspended() {
            return None;
        }
        let ran = Duration::try_from(now.duration_since(self.started(now)?)).unwrap_or_default();
        Some(limit.saturating_sub(ran))
    }

    /// A number in the status.
    pub(super) fn count(&self, key: &str) -> i64 {
        self.0.int_at(&["status", key]).unwrap_or(0)
    }

    /// Indexes in the status that are within the current completions.
    pub(super) fn indexes(&self, key: &str) -> Indexes {
        Indexes::parse(self.0.str_at(&["status", key]).unwrap_or_default(), self.completions().unwrap_or(0))
    }

    /// The uids in `uncountedTerminatedPods` of one outcome.
    pub(super) fn uncounted(&self, outcome: &str) -> &[Value] {
        self.0.items_at(&["status", "uncountedTerminatedPods", outcome])
    }

    /// A condition that is `True`.
    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        conditions::condition(&self.0, kind).filter(|c| c.str_at(&["status"]) == Some("True"))
    }
}
