//! The backoff of jobs: consecutive pod failures, each of which doubles the delay before the next pod.
//!
//! Remembered per job between reconciles, as pods may be deleted long before their failure stops to matter. After a
//! restart it is computed from the pods that still exist.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use corten_api::Str;
use corten_base::Backoff;
use corten_client::Key;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::spec::Job;
use super::tracking::JobPod;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// The failures since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: u32,
    pub(super) last: Option<Timestamp>,
}

impl Failures {
    /// The delay before the next pod may be created.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        let Some(last) = self.last else { return Duration::ZERO };
        // A clock that is behind makes the delay longer, never shorter.
        let delay = BACKOFF.delay(self.count);
        match Duration::try_from(now.duration_since(last)) {
            Ok(passed) => delay.saturating_sub(passed),
            Err(_) => delay + Duration::try_from(last.duration_since(now)).unwrap_or_default(),
        }
    }

    /// Adds finished pods: a success resets every failure before it.
    fn add(&mut self, succeeded: &[Option<Timestamp>], failed: &[Option<Timestamp>]) {
        let success = succeeded.iter().max();
        if success.is_some() {
            *self = Failures::default();
        }
        let counted = failed.iter().filter(|ended| success.is_none_or(|success| *ended > success));
        self.count = self.count.saturating_add(u32::try_from(counted.clone().count()).unwrap_or(u32::MAX));
        self.last = counted.copied().max().flatten().or(self.last);
    }
}

#[derive(Debug, Default)]
struct Record {
    job: Str,
    failures: Failures,
    /// The pods that have been added and still exist.
    added: HashSet<Str>,
}

/// The failures of every unfinished job.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<Key, Record>>);

impl Memory {
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Adds the pods that have finished since the last reconcile.
    pub(super) fn update(&self, key: &Key, uid: &str, job: &Job, pods: &[JobPod]) -> Failures {
        let mut records = self.0.lock();
        let record = records.entry(key.clone()).or_default();
        let is_first = record.job != uid;
        if is_first {
            *record = Record { job: uid.into(), ..Record::default() };
        }
        // Counted pods were added before, unless this is the first reconcile after a restart.
        let is_new = |pod: &&JobPod| pod.uncounted || (is_first && pod.pod.is_finished());
        let added = std::mem::take(&mut record.added);
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|pod| pod.is_valid(job)).filter(is_new) {
            let list = match () {
                () if pod.has_succeeded() => &mut succeeded,
                () if pod.has_failed(job) => &mut failed,
                () => continue,
            };
            if !added.contains(pod.uid()) {
                list.push(pod.tracking.ended);
            }
            record.added.insert(pod.pod.object.uid.clone());
        }
        record.failures.add(&succeeded, &failed);
        record.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn tries_wait_longer_and_longer() {
        let failures = |count| Failures { count, last: Some(at(0)) };
        for (count, now, seconds) in
            [(0, 0, 0), (1, 0, 10), (1, 4, 6), (1, 11, 0), (2, 0, 20), (3, 0, 40), (7, 0, 600), (40, 0, 600)]
        {
            assert_eq!(failures(count).wait(at(now)).as_secs(), seconds, "{count} failures at {now}");
        }
        assert_eq!(failures(1).wait(at(-5)), Duration::from_secs(15), "it ends in the future");
        assert_eq!(Failures::default().wait(at(0)), Duration::ZERO);
    }

    #[test]
    fn a_success_makes_up_for_failures_before_it() {
        let times = |seconds: &[i64]| seconds.iter().map(|s| Some(at(*s))).collect::<Vec<_>>();
        for (succeeded, failed, count, last) in [
            (&[][..], &[][..], 2, Some(-50)),
            (&[], &[1, 3, 2], 5, Some(3)),
            (&[5], &[], 0, None),
            (&[5, 2], &[3, 5], 0, None),
            (&[5, 2], &[3, 6, 9], 2, Some(9)),
        ] {
            let mut failures = Failures { count: 2, last: Some(at(-50)) };
            failures.add(&times(succeeded), &times(failed));
            assert_eq!(failures, Failures { count, last: last.map(at) }, "{succeeded:?} and {failed:?}");
        }
    }
}
