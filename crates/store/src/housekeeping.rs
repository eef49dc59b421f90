//! Background maintenance: leases expire, history is compacted, snapshots are written.
//!
//! One thread that sleeps until the earliest of its deadlines, or until woken when there is none. Invariant: it changes no
//! state itself; it sends requests to the committer. It only does work that no commit should wait for: writing the snapshot
//! that the committer took, and removing files that the snapshot replaces.

use std::{
    collections::VecDeque,
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    Error, Keep, Revision,
    log::{Snapshot, past},
    queue::Request,
    retention,
    shared::Shared,
};

const RETRY: Duration = Duration::from_secs(1);
/// The delay after a failed snapshot, which is costly and most likely failed because the disk is full.
const RETRY_SNAPSHOT: Duration = Duration::from_secs(10);

/// The signals to the housekeeper.
#[derive(Default)]
pub(crate) struct Housekeeping {
    signals: Mutex<Signals>,
    changed: Condvar,
    /// True if the housekeeper has a deadline for the history.
    sampling: AtomicBool,
}

#[derive(Default)]
struct Signals {
    woken: bool,
    closed: bool,
    snapshot: Turn,
}

/// The state of the next snapshot.
#[derive(Default)]
enum Turn {
    #[default]
    Free,
    Taken(Box<Snapshot>),
    Writing,
    Failed(Instant),
}

impl Housekeeping {
    pub(crate) fn wake(&self) {
        self.signals.lock().woken = true;
        self.changed.notify_one();
    }

    pub(crate) fn close(&self) {
        self.signals.lock().closed = true;
        self.changed.notify_one();
    }

    /// True if no snapshot is being written and none has failed recently.
    pub(crate) fn may_take_snapshot(&self) -> bool {
        match self.signals.lock().snapshot {
            Turn::Free => true,
            Turn::Failed(when) => when.elapsed() >= RETRY_SNAPSHOT,
            Turn::Taken(_) | Turn::Writing => false,
        }
    }

    /// Allows a snapshot at once although one has failed: the reason may be gone.
    pub(crate) fn allow_snapshot(&self) {
        let turn = &mut self.signals.lock().snapshot;
        if matches!(turn, Turn::Failed(_)) {
            *turn = Turn::Free;
        }
    }

    /// Queues a snapshot for writing.
    pub(crate) fn take_snapshot(&self, snapshot: Snapshot) {
        self.signals.lock().snapshot = Turn::Taken(Box::new(snapshot));
        self.wake();
    }

    pub(crate) fn snapshot_taken(&self, success: bool) {
        let turn = if success { Turn::Free } else { Turn::Failed(Instant::now()) };
        self.signals.lock().snapshot = turn;
    }

    fn taken(&self) -> Option<Box<Snapshot>> {
        let turn = &mut self.signals.lock().snapshot;
        match std::mem::replace(turn, Turn::Writing) {
            Turn::Taken(snapshot) => Some(snapshot),
            other => {
                *turn = other;
                None
            }
        }
    }

    pub(crate) fn history_grew(&self) {
        if !self.sampling.load(Ordering::SeqCst) && !self.sampling.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Sleeps until the deadline or a signal; false once closed.
    fn sleep(&self, until: Option<Instant>) -> bool {
        let mut signals = self.signals.lock();
        while !signals.woken && !signals.closed {
            match until {
                None => self.changed.wait(&mut signals),
                Some(until) => {
                    if self.changed.wait_until(&mut signals, until).timed_out() {
                        break;
                    }
                }
            }
        }
        signals.woken = false;
        !signals.closed
    }
}

pub(crate) struct Housekeeper {
    shared: Arc<Shared>,
    history: History,
    /// History beyond compaction.
    keep: Option<Keep>,
    /// The size up to which logs are not worth a snapshot.
    small_log: u64,
    /// True if the logs have grown, or a part of them was compacted, since they were last compared with the live entries.
    is_shrink_due: bool,
}

/// The part of the size at which a snapshot is taken in any case that is not worth one.
const SMALL_LOG: u64 = 256;

/// The size of logs that no snapshot would make much smaller.
const LEAST_LOG: u64 = 16 << 10;

impl Housekeeper {
    pub(crate) fn new(
        shared: Arc<Shared>,
        history: Duration,
        keep: Option<Keep>,
        snapshot_bytes: u64,
    ) -> Self {
        let history = History { keep: history, samples: VecDeque::new() };
        let small_log = (snapshot_bytes / SMALL_LOG).max(LEAST_LOG);
        Housekeeper { shared, history, keep, small_log, is_shrink_due: false }
    }

    /// Runs until the store closes.
    pub(crate) fn run(mut self) {
        loop {
            let chores = [Self::expire_leases, Self::compact_history, Self::write_snapshot];
            let mut next: Option<Instant> = None;
            for chore in chores {
                let again = match chore(&mut self) {
                    Ok(again) => again,
                    Err(Error::Closed) => return,
                    Err(error @ Error::Sync { .. }) => {
                        self.shared.fail(&error);
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(err = &error as &dyn StdError, "store maintenance failed; retrying");
                        Some(Instant::now() + RETRY)
                    }
                };
                next = next.into_iter().chain(again).min();
            }
            if !self.shared.housekeeping.sleep(next) {
                return;
            }
        }
    }

    fn expire_leases(&mut self) -> Result<Option<Instant>, Error> {
        loop {
            let next = self.shared.leases.lock().next_deadline();
            match next {
                Some(deadline) if deadline <= Instant::now() => {
                    self.shared.queue.submit_blocking(Request::Expire)?;
                }
                next => return Ok(next),
            }
        }
    }

    fn compact_history(&mut self) -> Result<Option<Instant>, Error> {
        // Cleared before the revision is read: a later write sets it again and wakes this thread.
        self.shared.housekeeping.sampling.store(false, Ordering::SeqCst);
        let revision = self.shared.live.revision();
        let compacted = self.shared.live.compacted();
        let agenda = self.history.sample(Instant::now(), revision, compacted);
        if agenda.sample_pending {
            self.shared.housekeeping.sampling.store(true, Ordering::SeqCst);
        }
        if let Some(revision) = agenda.compact {
            tracing::debug!(revision, "compacting history");
            self.shared.queue.submit_blocking(|reply| Request::Compact(revision, reply))?;
        }
        self.is_shrink_due |= agenda.sampled || agenda.compact.is_some();
        let again = self.shrink()?;
        if agenda.compact.is_some() && agenda.next.is_none() {
            // Nothing was written for as long as the history reaches back.
            self.shared.queue.submit_blocking(Request::Trim)?;
        }
        Ok(agenda.next.into_iter().chain(again).min())
    }

    /// Replaces logs of which most is not live. The rest is needed as history until it is compacted up to the snapshot, so that
    /// one is taken with each sample of the history, not only after the last compaction.
    fn shrink(&mut self) -> Result<Option<Instant>, Error> {
        if !self.is_shrink_due || !self.is_mostly_dead() {
            self.is_shrink_due = false;
            return Ok(None);
        }
        if !self.shared.housekeeping.may_take_snapshot() {
            return Ok(Some(Instant::now() + RETRY));
        }
        self.is_shrink_due = false;
        self.shared.queue.submit_blocking(Request::Shrink)?;
        Ok(None)
    }

    /// True if less than half of the logs is live. Of history beyond compaction, `retention` decides.
    fn is_mostly_dead(&self) -> bool {
        if self.keep.is_some() {
            return false;
        }
        let (logs, _) = self.shared.generations.sizes();
        let live = self.shared.live.state.read().bytes;
        logs > live + self.small_log
    }

    fn write_snapshot(&mut self) -> Result<Option<Instant>, Error> {
        if let Some(snapshot) = self.shared.housekeeping.taken() {
            if self.keep.is_none() {
                // The snapshot may need the space.
                self.shared.generations.prune(self.shared.live.compacted())?;
            }
            let written = snapshot.write(&self.shared.generations);
            self.shared.housekeeping.snapshot_taken(written.is_ok());
            written?;
        }
        self.prune()
    }

    /// Removes files that neither the next load nor history needs.
    fn prune(&self) -> Result<Option<Instant>, Error> {
        let compacted = self.shared.live.compacted();
        let Some(keep) = &self.keep else {
            self.shared.generations.prune(compacted)?;
            return Ok(None);
        };
        let extents = past::extents(&self.shared.generations)?;
        let plan = retention::plan(&extents, keep, past::now_ms());
        self.shared.generations.prune(plan.prune.min(compacted))?;
        let mut next = plan.next.and_then(|wait| Instant::now().checked_add(wait));
        if plan.rotate {
            self.shared.queue.submit_blocking(Request::Shrink)?;
            // Until then, its snapshot is written, and wakes this thread, or has failed.
            next = Some(Instant::now() + RETRY_SNAPSHOT);
        }
        Ok(next)
    }
}

/// Coarse samples of the current revision over time.
struct History {
    keep: Duration,
    samples: VecDeque<(Instant, Revision)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Agenda {
    compact: Option<Revision>,
    next: Option<Instant>,
    /// True if there are revisions newer than the last sample, which `next` will sample.
    sample_pending: bool,
    /// True if the current revision is a new sample.
    sampled: bool,
}

/// The number of samples per history period: history is kept for up to one such part longer.
const SAMPLES: u32 = 8;

impl History {
    fn sample(&mut self, now: Instant, revision: Revision, compacted: Revision) -> Agenda {
        let step = self.keep / SAMPLES;
        let mut compact = None;
        while let Some((time, sampled)) = self.samples.front().copied() {
            if now.saturating_duration_since(time) < self.keep {
                break;
            }
            compact = Some(sampled).filter(|sampled| *sampled > compacted);
            self.samples.pop_front();
        }
        let (last_time, last) = self.samples.back().copied().unzip();
        let reached = compact.unwrap_or(compacted).max(last.unwrap_or(0));
        let (mut sample_pending, mut sampled) = (false, false);
        let mut next_sample = None;
        if revision > reached {
            let due = last_time.and_then(|time: Instant| time.checked_add(step));
            match due.filter(|due| *due > now) {
                Some(due) => {
                    sample_pending = true;
                    next_sample = Some(due);
                }
                None => {
                    sampled = true;
                    self.samples.push_back((now, revision));
                }
            }
        }
        let oldest = self.samples.front().and_then(|(time, _)| time.checked_add(self.keep));
        Agenda { compact, next: oldest.into_iter().chain(next_sample).min(), sample_pending, sampled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_kept_for_its_period_and_no_timer_remains() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut history = History { keep: Duration::from_secs(80), samples: VecDeque::new() };
        let agenda = |compact, next: Option<u64>, sample_pending, sampled| {
            let next = next.map(at);
            Agenda { compact, next, sample_pending, sampled }
        };
        let idle = agenda(None, None, false, false);
        assert_eq!(history.sample(at(0), 5, 5), idle, "nothing to compact");
        let waiting = agenda(None, Some(81), false, true);
        assert_eq!(history.sample(at(1), 6, 5), waiting);
        let pending = agenda(None, Some(11), true, false);
        assert_eq!(history.sample(at(2), 7, 5), pending, "sampled once per step");
        assert_eq!(history.sample(at(11), 9, 5), waiting, "the sample at 11 covers 7 to 9");
        let first = agenda(Some(6), Some(91), false, false);
        assert_eq!(history.sample(at(81), 9, 5), first);
        let second = agenda(Some(9), None, false, false);
        assert_eq!(history.sample(at(91), 9, 6), second);
        assert_eq!(history.sample(at(200), 9, 9), idle);
    }
}
