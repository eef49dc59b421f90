//! The health of the proxy, and the health checks of Services with a Local traffic policy.

mod http;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::Response;
use corten_base::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;

pub(crate) use http::{Handler, bind, json, serve};
pub(crate) use services::ServiceHealth;

/// The progress of each IP family.
pub(crate) struct Health {
    clock: Clock,
    /// The time that a change may be pending before the proxy is unhealthy.
    timeout: Duration,
    families: Mutex<BTreeMap<&'static str, Progress>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    updated: Option<Timestamp>,
    /// The time of the first pending change.
    pending_since: Option<Timestamp>,
}

impl Health {
    pub(crate) fn new(clock: Clock, timeout: Duration) -> Arc<Health> {
        Arc::new(Health { clock, timeout, families: Mutex::default() })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Records that a change is pending.
    pub(crate) fn queued(&self) {
        let now = self.clock.now();
        for progress in self.families.lock().values_mut() {
            progress.pending_since.get_or_insert(now);
        }
    }

    /// Records that one family is in sync.
    pub(crate) fn updated(&self, ipv4: bool) {
        let progress = Progress { updated: Some(self.clock.now()), pending_since: None };
        self.families.lock().insert(if ipv4 { "IPv4" } else { "IPv6" }, progress);
    }

    /// True if no change has been pending for too long. A proxy that has just started is healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        let now = self.clock.now();
        self.families.lock().values().all(|progress| !self.is_late(progress, now))
    }

    fn is_late(&self, progress: &Progress, now: Timestamp) -> bool {
        let timeout = jiff::SignedDuration::try_from(self.timeout).unwrap_or(jiff::SignedDuration::MAX);
        progress.pending_since.is_some_and(|since| now.duration_since(since) >= timeout)
    }

    /// The response of a health check. `is_eligible` is part of it only where load balancers check.
    pub(crate) fn response(&self, is_eligible: Option<bool>) -> Response<String> {
        let now = self.clock.now();
        let families = self.families.lock();
        let is_healthy = families.values().all(|progress| !self.is_late(progress, now));
        let is_healthy_and_eligible = is_healthy && is_eligible != Some(false);
        let last = families.values().filter_map(|progress| progress.updated).max();
        let status: Vec<String> = families
            .iter()
            .map(|(family, progress)| {
                let (updated, healthy) = (rfc3339(progress.updated), !self.is_late(progress, now));
                format!("\"{family}\":{{\"lastUpdated\":\"{updated}\",\"healthy\":{healthy}}}")
            })
            .collect();
        let eligible = is_eligible.map(|is| format!("\"nodeEligible\":{is},")).unwrap_or_default();
        // A healthy proxy was last updated now, as upstream has it.
        let last = if is_healthy_and_eligible { Some(now) } else { last };
        let status =
            if status.is_empty() { String::new() } else { format!(",\"status\":{{{}}}", status.join(",")) };
        let body = format!(
            "{{\"lastUpdated\":\"{}\",\"currentTime\":\"{now}\",{eligible}\"healthy\":{is_healthy}{status}}}",
            rfc3339(last)
        );
        json(is_healthy_and_eligible, body)
    }
}

fn rfc3339(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (Arc<Health>, corten_base::ClockControl) {
        let (clock, hands) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        (Health::new(clock, Duration::from_secs(60)), hands)
    }

    #[test]
    fn a_proxy_with_a_change_pending_for_too_long_is_unhealthy() {
        let (health, hands) = health();
        assert!(health.is_healthy(), "a new proxy is healthy");
        health.updated(true);
        health.updated(false);
        health.queued();
        hands.advance(Duration::from_secs(59));
        assert!(health.is_healthy());
        health.updated(false);
        hands.advance(Duration::from_secs(1));
        assert!(!health.is_healthy());
        health.updated(true);
        assert!(health.is_healthy());
        hands.advance(Duration::from_secs(3600));
        assert!(health.is_healthy(), "without changes it stays healthy");
    }

    #[test]
    fn the_response_is_upstreams() {
        let (health, hands) = health();
        health.updated(true);
        hands.advance(Duration::from_secs(1));
        let expected = concat!(
            "{\"lastUpdated\":\"2026-01-01T00:00:01Z\",\"currentTime\":\"2026-01-01T00:00:01Z\",",
            "\"nodeEligible\":true,\"healthy\":true,",
            "\"status\":{\"IPv4\":{\"lastUpdated\":\"2026-01-01T00:00:00Z\",\"healthy\":true}}}"
        );
        let eligible = health.response(Some(true));
        assert_eq!((eligible.status().as_u16(), eligible.body().as_str()), (200, expected));
        assert_eq!(eligible.headers()["content-type"], "application/json");
        assert_eq!(eligible.headers()["x-content-type-options"], "nosniff");
        let ineligible = health.response(Some(false));
        assert_eq!(ineligible.status().as_u16(), 503);
        assert!(ineligible.body().contains("\"nodeEligible\":false,\"healthy\":true"));
        assert!(!health.response(None).body().contains("nodeEligible"));
    }
}
