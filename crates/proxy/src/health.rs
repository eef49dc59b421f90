//! Whether the proxy does its work, and what it tells load balancers about Services that stay on their node.

mod http;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;

pub(crate) use http::{Answer, Answers, bind, serve};
pub(crate) use services::ServiceHealth;

/// How far each IP family has come.
pub(crate) struct Health {
    clock: Clock,
    /// So long a change may wait to be written.
    patience: Duration,
    families: Mutex<BTreeMap<&'static str, Progress>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    updated: Option<Timestamp>,
    /// Since when something waits.
    waiting: Option<Timestamp>,
}

impl Health {
    pub(crate) fn new(clock: Clock, patience: Duration) -> Arc<Health> {
        Arc::new(Health { clock, patience, families: Mutex::default() })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Something has to be written.
    pub(crate) fn queued(&self) {
        let now = self.clock.now();
        for progress in self.families.lock().values_mut() {
            progress.waiting.get_or_insert(now);
        }
    }

    /// Everything is written in one family.
    pub(crate) fn updated(&self, ipv4: bool) {
        let progress = Progress { updated: Some(self.clock.now()), waiting: None };
        self.families.lock().insert(if ipv4 { "IPv4" } else { "IPv6" }, progress);
    }

    /// Nothing has waited for too long. A proxy that begins is well.
    pub(crate) fn is_healthy(&self) -> bool {
        let now = self.clock.now();
        self.families.lock().values().all(|progress| !self.is_late(progress, now))
    }

    fn is_late(&self, progress: &Progress, now: Timestamp) -> bool {
        let patience = jiff::SignedDuration::try_from(self.patience).unwrap_or(jiff::SignedDuration::MAX);
        progress.waiting.is_some_and(|since| now.duration_since(since) >= patience)
    }

    /// What is said of it. Whether new connections may come to the node is said only where load balancers ask.
    pub(crate) fn answer(&self, is_eligible: Option<bool>) -> Answer {
        let now = self.clock.now();
        let families = self.families.lock();
        let is_healthy = families.values().all(|progress| !self.is_late(progress, now));
        let is_well = is_healthy && is_eligible != Some(false);
        let last = families.values().filter_map(|progress| progress.updated).max();
        let status: Vec<String> = families
            .iter()
            .map(|(family, progress)| {
                let (updated, healthy) = (shown(progress.updated), !self.is_late(progress, now));
                format!("\"{family}\":{{\"lastUpdated\":\"{updated}\",\"healthy\":{healthy}}}")
            })
            .collect();
        let eligible = is_eligible.map(|is| format!("\"nodeEligible\":{is},")).unwrap_or_default();
        // Who is well was so just now: that is what those who watch the time expect.
        let last = if is_well { Some(now) } else { last };
        let status =
            if status.is_empty() { String::new() } else { format!(",\"status\":{{{}}}", status.join(",")) };
        let body = format!(
            "{{\"lastUpdated\":\"{}\",\"currentTime\":\"{now}\",{eligible}\"healthy\":{is_healthy}{status}}}",
            shown(last)
        );
        Answer::json(is_well, body)
    }
}

fn shown(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (Arc<Health>, corten_base::Hands) {
        let (clock, hands) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        (Health::new(clock, Duration::from_secs(60)), hands)
    }

    #[test]
    fn a_change_that_waits_too_long_is_unhealthy() {
        let (health, hands) = health();
        assert!(health.is_healthy(), "a proxy that begins is well");
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
        assert!(health.is_healthy(), "nothing to do is no fault");
    }

    #[test]
    fn it_is_said_as_upstream_says_it() {
        let (health, hands) = health();
        health.updated(true);
        hands.advance(Duration::from_secs(1));
        let expected = concat!(
            "{\"lastUpdated\":\"2026-01-01T00:00:01Z\",\"currentTime\":\"2026-01-01T00:00:01Z\",",
            "\"nodeEligible\":true,\"healthy\":true,",
            "\"status\":{\"IPv4\":{\"lastUpdated\":\"2026-01-01T00:00:00Z\",\"healthy\":true}}}"
        );
        assert_eq!(health.answer(Some(true)), Answer::json(true, expected.to_owned()));
        let going = health.answer(Some(false));
        assert!(going.body.contains("\"nodeEligible\":false,\"healthy\":true") && going.code == 503);
        assert!(!health.answer(None).body.contains("nodeEligible"));
    }
}
