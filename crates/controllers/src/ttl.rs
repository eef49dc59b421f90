//! TTL-after-finished controller: deletes finished jobs after their `ttlSecondsAfterFinished`.
//!
//! Watches jobs. Deletes finished ones, with their pods; never one without a TTL.

use corten_api::{Value, meta, time};
use corten_client::{Caches, DeleteOptions, Key, Propagation, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::{SignedDuration, Timestamp};

use crate::jobs::{self, BatchOptions};

pub(crate) struct TtlAfterFinished {
    pub(crate) options: BatchOptions,
}

impl Controller for TtlAfterFinished {
    /// The job, if it exists.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "ttl-after-finished-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::JOBS)]
    }

    fn workers(&self) -> usize {
        self.options.concurrent_ttl_after_finished_syncs
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::JOBS).get(key).map(|job| job.tree())
    }

    fn plan(&self, key: &Key, job: &Option<Value>, now: Timestamp) -> Plan {
        let Some(job) = job.as_ref().filter(|job| !meta::is_deleting(job)) else { return Plan::done() };
        let Some(expires) = expires(job) else { return Plan::done() };
        let left = expires.duration_since(now);
        if let Ok(left) = left.try_into()
            && expires > now
        {
            return Plan::done().requeue_after(left);
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            uid: Some(meta::uid(job).into()),
            resource_version: Some(meta::resource_version(job).into()),
            ..DeleteOptions::default()
        };
        Plan::done().then(Action::Delete { kind: &kinds::JOBS, key: key.clone(), options })
    }
}

/// The expiry of a finished job.
fn expires(job: &Value) -> Option<Timestamp> {
    let seconds = job.int_at(&["spec", "ttlSecondsAfterFinished"])?;
    let (_, finished) = jobs::finished(job)?;
    let at = time::parse(finished.str_at(&["lastTransitionTime"])?).ok()?;
    at.checked_add(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use corten_api::value;

    fn job(ttl: Option<i64>, condition: &'static str, status: &'static str) -> Value {
        let mut job = value!({
            "metadata": { "name": "j", "namespace": "n", "uid": "u", "resourceVersion": "7" },
            "status": { "conditions": [
                { "type": "SuspendedOnce", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
                { "type": condition, "status": status, "lastTransitionTime": "2026-01-01T01:00:00Z" },
            ]},
        });
        if let Some(ttl) = ttl {
            job.set(&["spec", "ttlSecondsAfterFinished"], ttl);
        }
        job
    }

    fn plan(job: &Option<Value>, now: &str) -> Plan {
        TtlAfterFinished { options: BatchOptions::default() }.plan(
            &Key::new("n", "j"),
            job,
            now.parse().unwrap(),
        )
    }

    #[test]
    fn a_job_is_kept_as_long_as_it_asks_for() {
        let at = "2026-01-01T01:00:10Z";
        for condition in ["Complete", "Failed"] {
            let soon = plan(&Some(job(Some(15), condition, "True")), at);
            assert_eq!(soon, Plan::done().requeue_after(Duration::from_secs(5)), "{condition}");
            for ttl in [0, 5, 10] {
                let due = plan(&Some(job(Some(ttl), condition, "True")), at);
                let [Action::Delete { options, .. }] = due.actions().collect::<Vec<_>>()[..] else {
                    panic!("{due:?}")
                };
                assert_eq!(options.propagation, Some(Propagation::Foreground));
                assert_eq!(options.uid.as_deref(), Some("u"));
            }
        }
    }

    #[test]
    fn others_are_left_alone() {
        let mut deleting = job(Some(0), "Complete", "True");
        deleting.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        for (case, job) in [
            ("gone", None),
            ("no ttl", Some(job(None, "Complete", "True"))),
            ("not finished", Some(job(Some(0), "Complete", "False"))),
            ("suspended", Some(job(Some(0), "Suspended", "True"))),
            ("deleting", Some(deleting)),
        ] {
            assert!(plan(&job, "2026-02-01T00:00:00Z").is_done(), "{case}");
        }
    }
}
