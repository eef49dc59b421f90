//! What happens without being asked: leases expire, history is compacted, the log is folded.
//!
//! One thread that sleeps until the earliest of its deadlines, or for ever when there is none.
//! Invariant: it never writes itself; it asks the committer. Only folding the log (a checkpoint)
//! happens here, so that no commit waits for it. The last part of a checkpoint holds the committer
//! back for a moment: otherwise, under constant load, the log would never be empty and never restart.
//! Should this thread not keep up, the committer folds the log itself.

use std::{
    collections::VecDeque,
    error::Error as StdError,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

use crate::{Error, Revision, queue::Request, shared::Shared, sqlite};

/// The log may grow to this many times the size at which it is folded.
const OVERDUE: u64 = 4;
const RETRY: Duration = Duration::from_secs(1);

/// How others get the housekeeper's attention.
pub(crate) struct Housekeeping {
    signals: Mutex<Signals>,
    changed: Condvar,
    checkpoint_bytes: u64,
    /// What the log has grown by since it was last folded, roughly.
    log_bytes: AtomicU64,
    /// Whether the housekeeper will look at the history again by itself.
    sampling: AtomicBool,
}

#[derive(Default)]
struct Signals {
    woken: bool,
    closed: bool,
}

impl Housekeeping {
    pub(crate) fn new(checkpoint_bytes: u64) -> Self {
        Housekeeping {
            signals: Mutex::default(),
            changed: Condvar::new(),
            checkpoint_bytes,
            log_bytes: AtomicU64::new(0),
            sampling: AtomicBool::new(false),
        }
    }

    pub(crate) fn wake(&self) {
        self.signals.lock().woken = true;
        self.changed.notify_one();
    }

    pub(crate) fn close(&self) {
        self.signals.lock().closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn log_grew(&self, bytes: usize) {
        let bytes = bytes as u64;
        let before = self.log_bytes.fetch_add(bytes, Ordering::AcqRel);
        if before < self.checkpoint_bytes && before + bytes >= self.checkpoint_bytes {
            self.wake();
        }
    }

    pub(crate) fn log_folded(&self) {
        self.log_bytes.store(0, Ordering::Release);
    }

    /// Whether folding in the background has fallen so far behind that the committer should help.
    pub(crate) fn log_overdue(&self) -> bool {
        self.log_bytes.load(Ordering::Acquire) >= self.checkpoint_bytes.saturating_mul(OVERDUE)
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
    database: PathBuf,
    connection: Option<Connection>,
    history: History,
}

impl Housekeeper {
    pub(crate) fn new(shared: Arc<Shared>, database: PathBuf, keep: Duration) -> Self {
        let history = History { keep, samples: VecDeque::new() };
        Housekeeper { shared, database, connection: None, history }
    }

    /// Works until the store closes.
    pub(crate) fn run(mut self) {
        loop {
            let chores = [Self::expire_leases, Self::compact_history, Self::fold_log];
            let mut next: Option<Instant> = None;
            for chore in chores {
                let again = match chore(&mut self) {
                    Ok(again) => again,
                    Err(Error::Closed) => return,
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn StdError, "housekeeping failed");
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
                    self.shared.queue.ask_blocking(Request::Expire)?;
                }
                next => return Ok(next),
            }
        }
    }

    fn compact_history(&mut self) -> Result<Option<Instant>, Error> {
        // Cleared before looking: a write that comes later sets it again and wakes us.
        self.shared.housekeeping.sampling.store(false, Ordering::SeqCst);
        let revision = self.shared.revision();
        let compacted = self.shared.compacted.load(Ordering::Acquire);
        let agenda = self.history.look(Instant::now(), revision, compacted);
        if agenda.sample_pending {
            self.shared.housekeeping.sampling.store(true, Ordering::SeqCst);
        }
        if let Some(revision) = agenda.compact {
            tracing::debug!(revision, "compacting");
            self.shared.queue.ask_blocking(|reply| Request::Compact(revision, reply))?;
        }
        Ok(agenda.next)
    }

    fn fold_log(&mut self) -> Result<Option<Instant>, Error> {
        let housekeeping = &self.shared.housekeeping;
        if housekeeping.log_bytes.load(Ordering::Acquire) < housekeeping.checkpoint_bytes {
            return Ok(None);
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => sqlite::open_beside(&self.database, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        };
        let connection = self.connection.insert(connection);
        sqlite::checkpoint(connection)?;
        let _gate = self.shared.gate.lock();
        if sqlite::checkpoint(connection)? {
            housekeeping.log_folded();
        }
        Ok(None)
    }
}

/// Remembers which revision was current when, coarsely.
struct History {
    keep: Duration,
    samples: VecDeque<(Instant, Revision)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Agenda {
    compact: Option<Revision>,
    next: Option<Instant>,
    /// There are revisions newer than the last sample, and `next` will see to them.
    sample_pending: bool,
}

/// History is kept for up to one part in this many longer than asked for.
const SAMPLES: u32 = 8;

impl History {
    fn look(&mut self, now: Instant, revision: Revision, compacted: Revision) -> Agenda {
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
        let mut sample_pending = false;
        let mut next_sample = None;
        if revision > reached {
            let due = last_time.and_then(|time: Instant| time.checked_add(step));
            match due.filter(|due| *due > now) {
                Some(due) => {
                    sample_pending = true;
                    next_sample = Some(due);
                }
                None => self.samples.push_back((now, revision)),
            }
        }
        let oldest = self.samples.front().and_then(|(time, _)| time.checked_add(self.keep));
        Agenda { compact, next: oldest.into_iter().chain(next_sample).min(), sample_pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_kept_for_as_long_as_asked_and_no_timer_is_left_behind() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut history = History { keep: Duration::from_secs(80), samples: VecDeque::new() };
        let idle = Agenda { compact: None, next: None, sample_pending: false };
        assert_eq!(history.look(at(0), 5, 5), idle, "nothing to compact");
        let waiting = Agenda { compact: None, next: Some(at(81)), sample_pending: false };
        assert_eq!(history.look(at(1), 6, 5), waiting);
        let pending = Agenda { compact: None, next: Some(at(11)), sample_pending: true };
        assert_eq!(history.look(at(2), 7, 5), pending, "sampled once per step");
        assert_eq!(history.look(at(11), 9, 5), waiting, "the sample at 11 covers 7 to 9");
        let first = Agenda { compact: Some(6), next: Some(at(91)), sample_pending: false };
        assert_eq!(history.look(at(81), 9, 5), first);
        let second = Agenda { compact: Some(9), next: None, sample_pending: false };
        assert_eq!(history.look(at(91), 9, 6), second);
        assert_eq!(history.look(at(200), 9, 9), idle);
    }
}
